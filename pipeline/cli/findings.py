"""A line of `referee doctor`: there, missing, or worth knowing."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """What was found, and beside it the remedy, if it needs one."""

    mark: Literal["✓", "✗", "·"]
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return the line as it is shown."""
        return f"  {self.mark} {self.what}" + (f" → {self.remedy}" if self.remedy else "")


def ok(what: str) -> Finding:
    """Say that it is there."""
    return Finding("✓", what)


def missing(what: str, remedy: str) -> Finding:
    """Say that it is needed and not there."""
    return Finding("✗", what, remedy)


def note(what: str, remedy: str = "") -> Finding:
    """Say what is worth knowing and no obstacle."""
    return Finding("·", what, remedy)
