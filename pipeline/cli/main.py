"""Entry point of `referee`: parse the command line and run one command.

A command is a module of this package. The module's docstring is the help text. Its function of the same name takes the
options as keyword arguments and returns or yields the lines to print, or returns an exit status if it prints itself.
"""

import argparse
import os
import sys
from importlib import import_module

from pipeline.errors import exits_cleanly

COMMANDS = (  # in the order of the help text
    *("init", "use", "check", "doctor", "inspect", "merge-lock", "upgrade", "show-views", "summary"),
    *("predict", "export", "export-features", "stream", "share"),
)
DESCRIPTION = """\
Adapt an image classifier to a new domain that has no labels, without the
images it was first fitted to, on features that are extracted once and cached.

The pipeline itself is DVC's: `dvc repro` runs it, `dvc exp`, `dvc metrics` and
`dvc plots` compare runs, `dvc push` and `dvc pull` share the caches. The
commands below prepare a project, show its results and use the adapted model.
"""
EPILOG = """\
words:
  domain   images of all classes in one style or from one place
  problem  source-target: adapt from a domain with labels to one without
  task     a group of classes; the model learns one group after another
  A_T      accuracy after the last task T, averaged over the tasks
  suite    the domains, models and problems of a project: suite.yaml
  store    a Zarr group written by a stage under cache/: embeddings, models

a first run:
  referee doctor
  dvc repro
  referee summary
  referee predict --problem mnist-uci photo.png

`referee COMMAND --help` lists what a command reads and writes, with examples.
Errors are one line on stderr, with exit status 2.
"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keep line breaks, and make the first column as wide as the longest command name."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 19  # argparse forgets the indent of the commands


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `referee` with all its commands."""
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
    """Run one command and return its exit status; print a `RefereeError` as one line on stderr."""
    options = vars(parser().parse_args(argv))
    del options["command"]
    try:
        result = options.pop("run")(**options)
        if not isinstance(result, int):
            sys.stdout.writelines(f"{line}\n" for line in result)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `referee summary | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
