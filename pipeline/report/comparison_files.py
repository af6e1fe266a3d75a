"""What `compare` and `sensitivity` wrote, read and validated: accuracies in percent."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import did_you_mean
from pipeline.report.result_file import json_of, malformed, text_of

GROUPS = ("reference", "ablation", "referee", "peer", "head")


@dataclass(frozen=True)
class Figures:
    """One method on one problem: A_T as mean and deviation over the seeds, and of each seed.

    failed: why the method could not run there; its figures are then NaN, of no seed.
    """

    title: str
    group: str
    source_samples: bool
    mean: float
    sd: float
    per_seed: tuple[float, ...]
    failed: str = ""


def read_comparison(path: Path, stage: str) -> dict[str, Figures]:
    """Return method -> figures of results/comparison/PROBLEM.json, in the file's order."""
    told = json_of(path, stage)
    if not isinstance(told, dict) or not told:
        raise malformed(path, "no methods in it", stage)
    try:
        return {method: _figures(method, entry) for method, entry in told.items()}
    except ValueError as error:
        raise malformed(path, str(error), stage) from None


def read_sensitivity(path: Path, name: str, stage: str) -> dict[float, tuple[float, float]]:
    """Return value -> (A_T, sd) of results/sensitivity/PROBLEM/NAME.csv, by value."""
    rows = list(csv.reader(text_of(path, stage).splitlines()))
    if not rows or rows[0] != [name, "A_T", "sd"] or len(rows) < 2:
        raise malformed(path, f"not a table of {name},A_T,sd", stage)
    found: dict[float, tuple[float, float]] = {}
    for number, row in enumerate(rows[1:], start=2):
        try:
            value, mean, sd = _sweep_row(name, row)
        except ValueError as error:
            raise malformed(path, f"line {number}: {error}", stage) from None
        if value in found:
            raise malformed(path, f"line {number}: {name} {row[0]} stands there twice", stage)
        found[value] = (mean, sd)
    return dict(sorted(found.items()))


def _sweep_row(name: str, row: list[str]) -> tuple[float, float, float]:
    """Return value, A_T and sd of a line, or raise ValueError saying what is wrong with it."""
    if len(row) != 3:
        raise ValueError(f"{len(row)} values, not 3")
    value, mean, sd = map(_number, row)
    if not 0 < value < math.inf:
        raise ValueError(f"{name}: {row[0]!r} is not a number above 0")
    return value, _percent("A_T", mean), _percent("sd", sd)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _figures(method: str, entry: Any) -> Figures:
    """Return the figures of a method, or raise ValueError saying what is wrong with them."""
    wanted: dict[str, type] = {"title": str, "group": str, "source_samples": bool}
    if not isinstance(entry, dict):
        raise ValueError(f"{method}: not a mapping")  # noqa: TRY004
    wanted |= {"failed": str} if "failed" in entry else {"A_T_per_seed": list}
    for key, kind in wanted.items():
        if not isinstance(entry.get(key), kind):
            raise ValueError(f"{method}.{key}: missing or not a {kind.__name__}")  # noqa: TRY004
    if entry["group"] not in GROUPS:
        raise ValueError(
            f"{method}.group: {entry['group']!r}{did_you_mean(entry['group'], GROUPS)}"
        )
    if "failed" in entry:
        return Figures(
            entry["title"], entry["group"], entry["source_samples"],
            math.nan, math.nan, (), " ".join(entry["failed"].split()) or "no reason given",
        )  # fmt: skip
    if not entry["A_T_per_seed"]:
        raise ValueError(f"{method}.A_T_per_seed: no seed")
    return Figures(
        title=entry["title"],
        group=entry["group"],
        source_samples=entry["source_samples"],
        mean=_percent(f"{method}.A_T", entry.get("A_T")),
        sd=_percent(f"{method}.A_T_sd", entry.get("A_T_sd")),
        per_seed=tuple(_percent(f"{method}.A_T_per_seed", a) for a in entry["A_T_per_seed"]),
    )


def _percent(key: str, value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 100:
        raise ValueError(f"{key}: {value!r} is not a number from 0 to 100")
    return float(value)
