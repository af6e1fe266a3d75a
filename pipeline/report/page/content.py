"""What the page shows of a problem: everything that the stages wrote about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from pipeline import paths
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import RefereeError
from pipeline.problem.problem import Project
from pipeline.report.made_with import MadeWith, stale_notes
from pipeline.report.page.chart import Origin
from pipeline.report.problem_tables import COLUMNS
from pipeline.report.results import (
    Comparison,
    ProblemFigures,
    Sweeps,
    guessing,
    read_evaluation,
    read_result_table,
    read_sweeps,
)


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
        return Origin(f"evaluate@{self.name}", paths.problem_tables(self.suite, self.name) / f"{table}.csv")


def read_problem(suite: str, name: str, problem: Any, comparison: Comparison, *, swept: bool) -> ProblemResults:
    """Read the other results of a problem that was compared, with its sweeps if it is ``swept``.

    ``problem`` is its entry of suite.yaml. A file that is missing or malformed is a `StoreError` that names it and the
    stage that writes it.
    """
    folder = paths.problem_tables(suite, name)
    return ProblemResults(
        suite,
        name,
        _title(problem),
        problem.target,
        read_evaluation(suite, name),
        {
            table: read_result_table(folder / f"{table}.csv", kinds, f"evaluate@{name}")
            for table, kinds in COLUMNS.items()
        },
        comparison,
        read_sweeps(suite, name) if swept else None,
    )


def _title(problem: Any) -> str:
    """Return the problem's name on the page."""
    hidden = "classes hidden" if problem.classes == "seen" else None
    return ", ".join(filter(None, (f"{problem.source} → {problem.target}", problem.label_space, hidden)))


def preprocessing_of(project: Project, domain: str) -> Preprocessing | None:
    """Return how the vision model sees a domain's images; None where its store does not say it or is not here."""
    try:
        recorded = project.domain(domain).vision.provenance.get("preprocessing")
    except RefereeError:  # no store on this machine: the page does without
        return None
    return Preprocessing(**recorded) if recorded else None


def warnings(problems: Sequence[ProblemResults], now: MadeWith) -> list[str]:
    """Return what must be known before a figure is used: results of other parameters, branches that guess."""
    made: list[Mapping[str, MadeWith]] = [
        {f"evaluation of {problem.name}": problem.metrics.made_with for problem in problems},
        {f"comparison of {problem.name}": problem.comparison.made_with for problem in problems},
        *(problem.sweeps.made_with for problem in problems if problem.sweeps),
    ]
    stale = [note for one in made for note in stale_notes(one, now, "dvc repro")]
    return stale + [warning for problem in problems for warning in guessing(problem.metrics, problem.title)]
