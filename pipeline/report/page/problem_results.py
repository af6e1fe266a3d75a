"""What the stages wrote about one problem, read for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pandas import DataFrame

from pipeline import paths
from pipeline.report.compared_methods import (
    Comparison,
    MethodFigures,
    Selection,
    Sweep,
    read_comparison,
    read_selection,
    read_sweeps,
)
from pipeline.report.evaluation import ProblemFigures
from pipeline.report.page.chart import Origin
from pipeline.report.problem_tables import COLUMNS
from pipeline.report.result_file import read_json, read_table


@dataclass(frozen=True, eq=False)
class ProblemResults:
    """The results of one problem."""

    suite: str
    name: str
    source: str
    target: str
    metrics: ProblemFigures
    tables: Mapping[str, DataFrame]  # by the names of `COLUMNS`
    comparison: Comparison
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)  # empty without `sensitivity`
    swept_with: Mapping[str, Any] = field(default_factory=dict)  # made with, of the sweeps
    selection: Selection | None = None  # None without `sensitivity`
    label_space: str | None = None  # None: the closed set
    hidden: bool = False  # whether the classes of tasks are

    @property
    def title(self) -> str:
        """The problem's name on the page."""
        parts = (f"{self.source} → {self.target}", self.label_space, "classes hidden" if self.hidden else None)
        return ", ".join(part for part in parts if part)

    @property
    def methods(self) -> Mapping[str, MethodFigures]:
        """The compared methods."""
        return self.comparison.methods

    @property
    def class_names(self) -> list[str]:
        """All classes, by label."""
        return list(self.tables["classes"]["class"])

    def origin(self, table: str) -> Origin:
        """Return where one of the tables comes from."""
        file = paths.problem_tables(self.suite, self.name) / f"{table}.csv"
        return Origin(f"evaluate@{self.name}", file.as_posix())


def read_problem(
    suite: str,
    name: str,
    source: str,
    target: str,
    *,
    swept: bool,
    label_space: str | None = None,
    hidden: bool = False,
) -> ProblemResults:
    """Read the results of the problem ``name`` from ``source`` to ``target``, with its sweeps if it is ``swept``.

    A file that is missing or malformed is a `StoreError` that names it and the stage that writes it.
    """
    stage, folder = f"evaluate@{name}", paths.problem_tables(suite, name)
    sweep = f"sensitivity@{name}"
    sweeps, swept_with = read_sweeps(paths.sensitivity(suite, name), sweep) if swept else ({}, {})
    return ProblemResults(
        suite,
        name,
        source,
        target,
        read_json(paths.evaluation(suite, name), ProblemFigures, stage),
        {table: read_table(folder / f"{table}.csv", columns, stage) for table, columns in COLUMNS.items()},
        read_comparison(paths.comparison(suite, name), f"compare@{name}"),
        sweeps,
        swept_with,
        read_selection(paths.selection(suite, name), sweep) if swept else None,
        label_space=label_space,
        hidden=hidden,
    )
