"""`referee`: the commands beside `dvc`. Each is one module of this package."""

from __future__ import annotations

import argparse
import sys

from pipeline.cli import check, doctor, export, inspect, predict, show_views, summary, use
from pipeline.errors import exits_cleanly

COMMANDS = (use, check, doctor, inspect, show_views, summary, predict, export)


def parser() -> argparse.ArgumentParser:
    """Return the parser with every command's own."""
    whole = argparse.ArgumentParser(
        prog="referee",
        description="REFEREE as a feature-cache pipeline. The pipeline itself runs by `dvc repro`; "
        "these commands prepare it and look at it.",
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
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
