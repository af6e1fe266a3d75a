"""`referee`: the commands beside `dvc`. Each is one module of this package."""

from __future__ import annotations

import argparse
import sys

from pipeline.cli import check, doctor, export, inspect, predict, share, show_views, summary, use
from pipeline.errors import exits_cleanly

COMMANDS = (use, check, doctor, inspect, show_views, summary, predict, export, share)

DESCRIPTION = """\
Adapt an image classifier to a new domain that has no labels, without the data
it was first fitted to, on features that are extracted once and cached.

The pipeline itself is DVC's: `dvc repro` runs it, `dvc exp`, `dvc metrics` and
`dvc plots` compare runs, `dvc push` and `dvc pull` share the caches. These
commands prepare it, look at what it made, and use the adapted model.
"""
EPILOG = """\
words:
  domain   a folder of class/image: one way in which the classes look
  problem  source-target, two domains: labels are known in the source alone
  task     classes arrive in groups; the model learns one group after another
  suite    a benchmark, i.e. domains, models and problems: a file in suites/
  store    what a stage left under cache/: embeddings, prompts, models

a first run:
  referee doctor
  dvc repro
  referee summary
  referee predict --problem mnist-uci photo.png

`referee COMMAND --help` says what a command reads and writes, with examples.
Mistakes are one line and status 2.
"""


class Wide(argparse.RawDescriptionHelpFormatter):
    """Text as it was written, and room for the longest command's name."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 14  # argparse itself forgets the indent of the commands


def parser() -> argparse.ArgumentParser:
    """Return the parser with every command's own."""
    whole = argparse.ArgumentParser(
        prog="referee", description=DESCRIPTION, epilog=EPILOG, formatter_class=Wide
    )
    commands = whole.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )
    for command in COMMANDS:
        command.add_parser(commands)
    return whole


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Run one command; a `RefereeError` is one line on stderr and status 2."""
    args = parser().parse_args(argv)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
