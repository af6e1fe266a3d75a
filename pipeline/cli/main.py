"""`referee`: the commands beside `dvc`.

Each is one module of this package, whose docstring is its help, and in it a function of the same name that takes the
options by their names and returns or yields the lines to print, or a status where it has printed them itself.
"""

import argparse
import os
import sys
from importlib import import_module

from pipeline.errors import exits_cleanly

COMMANDS = (  # modules of this package, in the order of the help
    *("init", "use", "check", "doctor", "inspect", "merge-lock", "upgrade", "show-views", "summary"),
    *("predict", "export", "export-features", "stream", "share"),
)
DESCRIPTION = """\
Adapt an image classifier to a new domain that has no labels, without the
images it was first fitted to, on features that are extracted once and cached.

The pipeline itself is DVC's: `dvc repro` runs it, `dvc exp`, `dvc metrics` and
`dvc plots` compare runs, `dvc push` and `dvc pull` share the caches. These
commands prepare it, show what it computed, and use the adapted model.
"""
EPILOG = """\
words:
  domain   images of all the classes in one style or from one place
  problem  source-target: adapt from a domain with labels to one without
  task     a group of classes; the model learns one group after another
  A_T      after the last of T tasks, accuracy averaged over the tasks
  suite    the domains, models and problems of a project: suite.yaml
  store    a Zarr group that a stage wrote under cache/: embeddings, models

a first run:
  referee doctor
  dvc repro
  referee summary
  referee predict --problem mnist-uci photo.png

`referee COMMAND --help` says what a command reads and writes, with examples.
A mistake is one line and status 2.
"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Text as written, and a first column as wide as the longest name of a command."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 19  # argparse does not count the indent of the commands


def parser() -> argparse.ArgumentParser:
    """Return the parser of `referee` with all commands."""
    referee = argparse.ArgumentParser(
        prog="referee", description=DESCRIPTION, epilog=EPILOG, formatter_class=HelpFormatter
    )
    commands = referee.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name in COMMANDS:
        function = name.replace("-", "_")
        module = import_module(f"pipeline.cli.{function}")
        description = str(module.__doc__)
        command = commands.add_parser(
            name,
            help=description.partition("\n")[0].rstrip("."),
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
        command.set_defaults(run=getattr(module, function))
    return referee


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Run one command; a `RefereeError` is one line on stderr and status 2."""
    options = vars(parser().parse_args(argv))
    del options["command"]
    try:
        done = options.pop("run")(**options)
        if not isinstance(done, int):
            sys.stdout.writelines(f"{line}\n" for line in done)
        sys.stdout.flush()
    except BrokenPipeError:  # `referee summary | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return done if isinstance(done, int) else 0


if __name__ == "__main__":
    sys.exit(main())
