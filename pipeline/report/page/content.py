"""What the page shows: everything that the stages wrote about a suite."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from pipeline import paths
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import RefereeError
from pipeline.problem.problem import Project
from pipeline.report.made_with import MadeWith, made_with, stale_notes
from pipeline.report.page.chart import Origin
from pipeline.report.page.pictures import read_pictures
from pipeline.report.page.provenance import figures_digest, revision, store_hashes
from pipeline.report.page.stream_results import read_streams
from pipeline.report.problem_tables import COLUMNS
from pipeline.report.results import (
    Comparison,
    ProblemFigures,
    Sweeps,
    guessing,
    read_evaluation,
    read_sweeps,
    read_table,
)
from pipeline.report.suite import read_suite
from pipeline.report.suite_tables import headline_table, method_tables


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


def read_problem(
    suite: str, name: str, title: str, target: str, comparison: Comparison, *, swept: bool
) -> ProblemResults:
    """Read the other results of a problem that was compared, with its sweeps if it is ``swept``.

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
        comparison,
        read_sweeps(suite, name) if swept else None,
    )


def page_content(params: Any, project: Project) -> dict[str, Any]:
    """Return the variables of templates/page.html; ``params`` are the `Params` of the project."""
    suite, max_pixels = params.suite, params.data.max_pixels
    whole = read_suite(params)
    problems = [
        read_problem(suite, name, _title(one), one.target, whole.comparisons[name], swept=name in params.swept)
        for name, one in params.problems.items()
    ]
    album, code = dict[str, str](), paths.stage_code("report")
    pictures = {
        problem.name: read_pictures(
            problem.tables["shown"],
            problem.target,
            album,
            images=params.domains[problem.target].images,
            preprocessing=_preprocessing(project, problem.target),
            views=params.domains[problem.target].views,
            settings=params.views.model_dump(),
            max_pixels=max_pixels,
            code=code.read_text("utf-8") if code.is_file() else None,
        )
        for problem in problems
    }
    # of every step; None for the steps whose images are gone, which come first
    images = {key: params.domains[step.domain].images for key, step in params.steps.items()}
    streams = read_streams(suite, {**dict.fromkeys(params.past), **images}, album, max_pixels=max_pixels)
    return {
        "suite": suite,
        "variant": params.method.variant,
        "warnings": warnings(problems, made_with(params.selected())),
        "headline": headline_table(whole) if problems else None,
        "methods": [part for table in method_tables(whole) for part in table.parts()],
        "problems": problems,
        "pictures": pictures,  # by problem
        "streams": streams,
        "album": album,  # key of a picture -> data address
        "params": params.selected(),
        "revision": revision(),
        "hashes": store_hashes(),
        "figures": figures_digest(paths.figures(suite, params.problems)),
    }


def _title(problem: Any) -> str:
    """Return the problem's name on the page."""
    hidden = "classes hidden" if problem.classes == "seen" else None
    return ", ".join(filter(None, (f"{problem.source} → {problem.target}", problem.label_space, hidden)))


def _preprocessing(project: Project, domain: str) -> Preprocessing | None:
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
