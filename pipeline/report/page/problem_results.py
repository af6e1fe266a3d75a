"""What the stages wrote about one problem, read for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pandas import DataFrame
from pydantic import BaseModel, FiniteFloat

from pipeline.report.compared_methods import MethodFigures, Sweep, read_comparison, read_sweeps
from pipeline.report.page.chart import Origin
from pipeline.report.problem_tables import COLUMNS
from pipeline.report.result_file import read_json, read_table


class ProblemMetrics(BaseModel):
    """The figures of a problem, in percent, as `problem_figures` returns them."""

    A_T: FiniteFloat
    A_T_sd: FiniteFloat
    forgetting: FiniteFloat
    source_only_A_T: FiniteFloat
    clip_only_A_T: FiniteFloat
    pseudo_label_accuracy: FiniteFloat | None = None  # none was kept
    weight_auroc: FiniteFloat | None = None  # all are right, or all are wrong
    ece: dict[str, FiniteFloat] = {}


@dataclass(frozen=True)
class ProblemFiles:
    """Where the results of a problem are."""

    metrics: Path
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
    metrics: ProblemMetrics
    tables: Mapping[str, DataFrame]  # by the names of `COLUMNS`
    methods: Mapping[str, MethodFigures]
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)  # empty without `sensitivity`

    @property
    def title(self) -> str:
        """The problem's name on the page."""
        return f"{self.source} → {self.target}"

    @property
    def class_names(self) -> list[str]:
        """All classes, by label."""
        return list(self.tables["classes"]["class"])

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
        read_json(files.metrics, ProblemMetrics, stage),
        {
            table: read_table(files.tables / f"{table}.csv", columns, stage)
            for table, columns in COLUMNS.items()
        },
        read_comparison(files.comparison, f"compare@{name}"),
        read_sweeps(files.sensitivity, f"sensitivity@{name}") if files.sensitivity else {},
    )
