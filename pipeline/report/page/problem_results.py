"""What the stages wrote about one problem, read for the page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pandas import DataFrame

from pipeline import paths
from pipeline.report.problem_tables import COLUMNS
from pipeline.report.results import (
    Comparison,
    ProblemFigures,
    Sweeps,
    read_comparison,
    read_evaluation,
    read_sweeps,
    read_table,
)


class Origin(NamedTuple):
    """Where the values of a chart come from: the DVC stage that writes them, and their file."""

    stage: str
    file: str


@dataclass(frozen=True, eq=False)
class ProblemResults:
    """The results of one problem."""

    suite: str
    name: str
    title: str
    target: str
    metrics: ProblemFigures
    tables: Mapping[str, DataFrame]  # by the names of `COLUMNS`
    comparison: Comparison
    sweeps: Sweeps | None  # None if the problem is not swept

    def origin(self, table: str) -> Origin:
        """Return where one of the tables comes from."""
        file = paths.problem_tables(self.suite, self.name) / f"{table}.csv"
        return Origin(f"evaluate@{self.name}", file.as_posix())


def read_problem(suite: str, name: str, title: str, target: str, *, swept: bool) -> ProblemResults:
    """Read the results of a problem, with its sweeps if it is ``swept``.

    A file that is missing or malformed is a `StoreError` that names it and the stage that writes it.
    """
    folder = paths.problem_tables(suite, name)
    return ProblemResults(
        suite,
        name,
        title,
        target,
        read_evaluation(suite, name),
        {table: read_table(folder / f"{table}.csv", kinds, f"evaluate@{name}") for table, kinds in COLUMNS.items()},
        read_comparison(suite, name),
        read_sweeps(suite, name) if swept else None,
    )
