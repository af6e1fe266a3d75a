"""One line of the benchmark table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A ratio of two measurements of one run: ours to the baseline's, as ``target`` wants it."""

    name: str
    ratio: float
    baseline: str
    target: str
    met: bool
    detail: str = ""
