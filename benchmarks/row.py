"""One line of the table of benchmarks: a number, what it is compared with, and the goal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What was measured.

    Attributes
    ----------
    name : str
    ratio : float
        The number, in ``unit``.
    baseline : str
        What it is a ratio to, or "–".
    target : str
        The goal, or "–".
    met : bool
        Whether the goal is met.
    detail : str
        Both sides as measured.
    unit : {"×", "s"}
    module : str
        The module of this package that measured it.
    """

    name: str
    ratio: float
    baseline: str
    target: str
    met: bool
    detail: str = ""
    unit: str = "×"
    module: str = ""


def at_least(name: str, ratio: float, baseline: str, goal: float, detail: str) -> Row:
    """Return the row of a speed-up: the larger the better."""
    return Row(name, round(ratio, 3), baseline, f"≥ {goal:g}×", ratio >= goal, detail)


def at_most(name: str, ratio: float, baseline: str, goal: float, detail: str, *, unit: str = "×") -> Row:
    """Return the row of a cost: the smaller the better."""
    target = f"≤ {goal:g} s" if unit == "s" else f"≤ {goal:g}×"
    return Row(name, round(ratio, 3), baseline, target, ratio <= goal, detail, unit)
