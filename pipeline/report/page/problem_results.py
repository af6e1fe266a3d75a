"""What the stages wrote about one problem, read for the page."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.report.comparison_files import Figures
from pipeline.report.diagnosis_tables import MAP, RELIABILITY, SHOWN, WEIGHTS
from pipeline.report.page.chart import Origin
from pipeline.report.result_file import json_of, malformed, text_of

Rows = Sequence[Mapping[str, str]]
Sweep = Mapping[float, tuple[float, float]]  # value -> A_T, sd

HEADERS = {
    "tasks": ("after_task", "adapted", "sd"),  # and the references there are
    "accuracy_matrix": ("after_task", "task", "accuracy"),
    "forgetting": ("task", "best", "final", "forgotten"),
    "classes": ("class",),
    "confusion": ("actual", "predicted"),
    "reliability": RELIABILITY,
    "weights": WEIGHTS,
    "shown": SHOWN,
    "map": MAP,
}
# columns that hold no numbers
WORDS = frozenset({"class", "actual", "predicted", "branch", "role", "path", "sha256", "split"})


@dataclass(frozen=True)
class ProblemResults:
    """One problem: its tables, row by row, its metrics, its methods' figures and, where it was swept, the sweeps."""

    name: str
    source: str
    target: str
    metrics: Mapping[str, Any]
    tasks: Rows
    matrix: Rows
    forgetting: Rows
    classes: Rows
    confusion: Rows
    reliability: Rows
    weights: Rows
    shown: Rows
    map: Rows
    methods: Mapping[str, Figures]
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)

    def origin(self, table: str) -> Origin:
        """Return which stage made one of the problem's tables, and where it is."""
        return Origin(f"evaluate@{self.name}", f"results/tables/{self.name}/{table}")

    @property
    def class_names(self) -> list[str]:
        """All classes, in the order of their labels."""
        return [row["class"] for row in self.classes]

    @property
    def title(self) -> str:
        """How the problem is called on the page."""
        return f"{self.source} → {self.target}"


def read_problem_tables(folder: Path, stage: str) -> dict[str, Rows]:
    """Return the tables of results/tables/PROBLEM by the names of `ProblemResults`."""
    read: dict[str, Rows] = {
        name: read_rows(folder / f"{name}.csv", header, stage) for name, header in HEADERS.items()
    }
    read["matrix"] = read.pop("accuracy_matrix")
    return read


def read_rows(path: Path, header: Sequence[str], stage: str) -> list[dict[str, str]]:
    """Return the rows of a table whose columns begin with ``header``."""
    lines = list(csv.reader(text_of(path, stage).splitlines()))
    if not lines or tuple(lines[0][: len(header)]) != tuple(header):
        raise malformed(path, f"its columns do not begin with {','.join(header)}", stage)
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(lines[0]):
            raise malformed(path, f"line {number}: {len(line)} values, not {len(lines[0])}", stage)
        for name, value in zip(lines[0], line, strict=True):
            if (name in header or name.endswith("_only")) and not _fits(name, value):
                raise malformed(path, f"line {number}: {name}: {value!r} is no number", stage)
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def _fits(column: str, value: str) -> bool:
    """Say whether a value is a number, or its column one of words."""
    if column in WORDS or column.endswith("_says"):
        return True
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def read_metrics(path: Path, stage: str) -> dict[str, Any]:
    """Return results/metrics/PROBLEM.json."""
    told = json_of(path, stage)
    wanted = (
        "A_T",
        "A_T_sd",
        "forgetting",
        "source_only_A_T",
        "clip_only_A_T",
    )
    for key in wanted:
        if not isinstance(told, dict) or not isinstance(told.get(key), (int, float)):
            raise malformed(path, f"{key}: missing or not a number", stage)
    right = told.get("pseudo_label_accuracy")  # none kept, none right
    if not isinstance(right, int | float | None):
        raise malformed(path, "pseudo_label_accuracy: not a number", stage)
    return dict(told)
