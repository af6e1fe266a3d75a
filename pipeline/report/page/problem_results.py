"""What the stages wrote about one problem, read for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pandas import DataFrame

from pipeline.report.chance import chance_warning
from pipeline.report.compared_methods import (
    Comparison,
    MethodFigures,
    Sweep,
    read_comparison,
    read_sweeps,
)
from pipeline.report.evaluation import ProblemFigures
from pipeline.report.page.chart import Origin
from pipeline.report.problem_tables import COLUMNS
from pipeline.report.result_file import read_json, read_table


@dataclass(frozen=True)
class ProblemFiles:
    """Where the results of a problem are."""

    figures: Path
    tables: Path  # a folder
    comparison: Path
    sensitivity: Path | None = None  # a folder; None where that stage is not asked for


@dataclass(frozen=True, eq=False)
class ProblemResults:
    """The results of one problem."""

    name: str
    source: str
    target: str
    files: ProblemFiles
    metrics: ProblemFigures
    tables: Mapping[str, DataFrame]  # by the names of `COLUMNS`
    comparison: Comparison
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)  # empty without `sensitivity`
    swept_with: Mapping[str, Any] = field(default_factory=dict)  # made with, of the sweeps

    @property
    def title(self) -> str:
        """The problem's name on the page."""
        return f"{self.source} → {self.target}"

    @property
    def methods(self) -> Mapping[str, MethodFigures]:
        """The compared methods."""
        return self.comparison.methods

    @property
    def class_names(self) -> list[str]:
        """All classes, by label."""
        return list(self.tables["classes"]["class"])

    def guessing(self) -> list[str]:
        """Return a warning for each classifier that is no better than guessing on the target."""
        one = self.metrics
        figures = {"CLIP": one.clip_only_A_T, "the source model": one.source_only_A_T}
        found = (
            chance_warning(
                who, accuracy, classes=one.classes, images=one.test_images, where=self.title
            )
            for who, accuracy in figures.items()
        )
        return [warning for warning in found if warning]

    def origin(self, table: str) -> Origin:
        """Return where one of the tables comes from."""
        return Origin(f"evaluate@{self.name}", (self.files.tables / f"{table}.csv").as_posix())


def read_problem(name: str, source: str, target: str, files: ProblemFiles) -> ProblemResults:
    """Read the results of the problem ``name`` from ``source`` to ``target``.

    A file that is missing or malformed is a `StoreError` that names it and the stage that writes it.
    """
    stage = f"evaluate@{name}"
    return ProblemResults(
        name,
        source,
        target,
        files,
        read_json(files.figures, ProblemFigures, stage),
        {
            table: read_table(files.tables / f"{table}.csv", columns, stage)
            for table, columns in COLUMNS.items()
        },
        read_comparison(files.comparison, f"compare@{name}"),
        *(read_sweeps(files.sensitivity, f"sensitivity@{name}") if files.sensitivity else ()),
    )
