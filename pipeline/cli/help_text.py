"""One form for every command's help: what it is for, what it reads and writes, an example."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def command(
    commands: _SubParsersAction[argparse.ArgumentParser],
    name: str,
    purpose: str,
    description: str,
    *,
    reads: str,
    writes: str,
    examples: str,
) -> argparse.ArgumentParser:
    """Return the parser of a command; ``purpose`` is its line in the list of commands."""
    about = f"{description.strip()}\n\nreads:  {_indented(reads)}\nwrites: {_indented(writes)}"
    shown = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return commands.add_parser(
        name,
        help=purpose,
        description=about,
        epilog=f"examples:\n{shown}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n        ")


def positive(text: str) -> int:
    """Read a whole number from 1 on, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a whole number from 1 on")
    return number
