"""Read what the page shows about a problem: everything that the stages wrote about it."""

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
    guess_warnings,
    read_evaluation,
    read_result_table,
    read_sweeps,
)


@dataclass(frozen=True, eq=False)
class ProblemResults:
    """All results on one problem."""

    suite: str
    name: str
    title: str
    target: str
    metrics: ProblemFigures
    tables: Mapping[str, DataFrame]  # keys as in `COLUMNS`
    comparison: Comparison
    sweeps: Sweeps | None  # None if the problem is not swept

    def origin(self, table: str) -> Origin:
        """Return the stage and file of one of the tables."""
        return Origin(f"evaluate@{self.name}", paths.problem_tables(self.suite, self.name) / f"{table}.csv")


def read_problem(suite: str, name: str, problem: Any, comparison: Comparison, *, swept: bool) -> ProblemResults:
    """Read all results on a problem besides its comparison, including the sweeps if it is ``swept``.

    ``problem`` is its entry in suite.yaml. Raise StoreError, naming the file and its stage, if one is missing or
    malformed.
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
    """Return the vision model's preprocessing of a domain's images, or None if no store on this machine records it."""
    try:
        recorded = project.domain(domain).vision.provenance.get("preprocessing")
    except RefereeError:  # no store on this machine: the page does without
        return None
    return Preprocessing(**recorded) if recorded else None


def result_warnings(problems: Sequence[ProblemResults], current: MadeWith) -> list[str]:
    """Return what to know before using a figure: results of other parameters, and models that only guess."""
    results: list[Mapping[str, MadeWith]] = [
        {f"evaluation of {problem.name}": problem.metrics.made_with for problem in problems},
        {f"comparison of {problem.name}": problem.comparison.made_with for problem in problems},
        *(problem.sweeps.made_with for problem in problems if problem.sweeps),
    ]
    stale = [note for group in results for note in stale_notes(group, current, "dvc repro")]
    return stale + [warning for problem in problems for warning in guess_warnings(problem.metrics, problem.title)]
