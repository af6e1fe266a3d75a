"""One line of the table of benchmarks: a number, what it is compared with, and what is wanted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What was measured.

    ratio: the number, in ``unit``: "×", or "s" where there is nothing to compare with. baseline: what it is a ratio
    to, or "–". target: what is wanted, as people write it. met: whether it is so. detail: both sides as measured.
    module: of this package, whose row it is.
    """

    name: str
    ratio: float
    baseline: str
    target: str
    met: bool
    detail: str = ""
    unit: str = "×"
    module: str = ""


def at_least(name: str, ratio: float, baseline: str, wanted: float, detail: str) -> Row:
    """Return the row of a speed-up: the larger the better."""
    return Row(name, round(ratio, 3), baseline, f"≥ {wanted:g}×", ratio >= wanted, detail)


def at_most(
    name: str, ratio: float, baseline: str, wanted: float, detail: str, *, unit: str = "×"
) -> Row:
    """Return the row of a cost: the smaller the better."""
    target = f"≤ {wanted:g} s" if unit == "s" else f"≤ {wanted:g}×"
    return Row(name, round(ratio, 3), baseline, target, ratio <= wanted, detail, unit)
