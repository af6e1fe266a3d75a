"""Stage `report`: results/SUITE/report.html, one page of everything that was measured.

Reads what the stages wrote under results/SUITE, and images where there are any. The page is not cached, so it is never
pushed: it may hold thumbnails of images, and it names the git revision.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline import paths
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import RefereeError
from pipeline.params import Params
from pipeline.report.made_with import MadeWith, made_with, stale_notes
from pipeline.report.page.provenance import Provenance, StoreHash, figures_digest, lock_hashes
from pipeline.report.published import read_published
from pipeline.report.results import guessing
from pipeline.report.suite import Suite
from pipeline.report.suite_tables import headline_table, method_tables
from pipeline.stage import BY_NAME, Context, stage
from pipeline.suite import Problem
from pipeline.write_aside import write_aside

if TYPE_CHECKING:  # pandas, for which stage `code`, which imports every stage, need not wait
    from pipeline.report.page.page import PageContent
    from pipeline.report.page.problem_results import ProblemResults

LOCK = Path("dvc.lock")
DECIDING = ("pipeline", "dvc.yaml", "params.yaml", "suite.yaml")  # uncommitted changes here are mentioned
GIT_SECONDS = 20
SECTIONS = (
    *("compare", "data", "datasets", "domains", "language", "method", "models", "past"),
    *("problems", "refinement", "rff", "sensitivity", "sources", "steps", "swept", "views"),
    "vision",
)


def settings(params: Params) -> dict[str, Any]:
    """Return all that the page shows of the parameters."""
    return params.model_dump(mode="json", include=set(SECTIONS) - set(BY_NAME), exclude_none=True)


@stage(reads=SECTIONS, settings=settings)
def report(context: Context) -> str:
    """Write results/SUITE/report.html."""
    from pipeline.report.page.page import render_page

    html = render_page(page_content(context))
    path = paths.report(context.suite)
    with write_aside(path) as aside:
        aside.write_text(html, encoding="utf-8")
    return f"{path}, {len(html.encode()) / 1e6:.1f} MB"


def page_content(context: Context) -> PageContent:
    """Return all that the page shows."""
    from pipeline.report.page.page import PageContent, drawing_library
    from pipeline.report.page.pictures import read_pictures
    from pipeline.report.page.problem_results import read_problem
    from pipeline.report.page.stream_results import read_streams

    params = context.params
    problems = [
        read_problem(context.suite, name, problem_title(one), one.target, swept=name in params.swept)
        for name, one in params.problems.items()
    ]
    spaces = {name: one.label_space for name, one in params.problems.items() if one.label_space}
    datasets = {p.name: params.domains[p.target].dataset for p in problems}
    suite = Suite(context.suite, {p.name: p.comparison for p in problems}, datasets, spaces)
    album, code = dict[str, str](), paths.stage_code("report")
    pictures = {
        problem.name: read_pictures(
            problem,
            album,
            images=params.domains[problem.target].images,
            preprocessing=preprocessing(context, problem.target),
            views=params.views,  # the same fields as ViewSettings, whose module imports torch
            max_pixels=params.data.max_pixels,
            code=code.read_text("utf-8") if code.is_file() else None,
        )
        for problem in problems
    }
    return PageContent(
        suite=context.suite,
        variant=params.method.variant,
        headline=headline_table(suite) if problems else None,
        methods=[part for table in method_tables(suite, read_published()) for part in table.parts()],
        problems=problems,
        pictures=pictures,
        album=album,
        provenance=Provenance(
            params.selected(), revision(), store_hashes(), figures_digest(paths.figures(context.suite, params.problems))
        ),
        drawing=drawing_library(),
        streams=read_streams(context.suite, step_images(params), album, max_pixels=params.data.max_pixels),
        warnings=warnings(problems, made_with(params.selected())),
    )


def problem_title(problem: Problem) -> str:
    """Return the problem's name on the page."""
    hidden = "classes hidden" if problem.classes == "seen" else None
    return ", ".join(filter(None, (f"{problem.source} → {problem.target}", problem.label_space, hidden)))


def step_images(params: Params) -> dict[str, str | None]:
    """Return the images of every step; None for the steps whose images are gone, which come first."""
    present = {key: params.domains[step.domain].images for key, step in params.steps.items()}
    return {**dict.fromkeys(params.past), **present}


def warnings(problems: Sequence[ProblemResults], now: MadeWith) -> list[str]:
    """Return what must be known before a figure is used: results of other parameters, branches that guess."""
    made: list[dict[str, MadeWith]] = [
        {f"evaluation of {problem.name}": problem.metrics.made_with for problem in problems},
        {f"comparison of {problem.name}": problem.comparison.made_with for problem in problems},
        *(problem.sweeps.made_with_of(problem.name) for problem in problems if problem.sweeps),
    ]
    stale = [note for one in made for note in stale_notes(one, now, "dvc repro")]
    return stale + [warning for problem in problems for warning in guessing(problem.metrics, problem.title)]


def preprocessing(context: Context, domain: str) -> Preprocessing | None:
    """Return how the vision model sees a domain's images; None where its store does not say it or is not here."""
    try:
        recorded = context.project.domain(domain).vision.provenance.get("preprocessing")
    except RefereeError:  # no store on this machine: the page does without
        return None
    return Preprocessing(**recorded) if recorded else None


def revision() -> str:
    """Return git's revision of the work tree, or why it is not known."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", *DECIDING)
    except (OSError, subprocess.SubprocessError):
        return "not known: no git repository with a commit here"
    names = sorted({line[3:].split("/")[0] for line in changed.splitlines()})
    return head + (f", with uncommitted changes in {', '.join(names)}" if names else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603  fixed arguments
        ["git", *arguments],  # noqa: S607  the git of the user's path, as DVC uses it
        capture_output=True,
        text=True,
        check=True,
        timeout=GIT_SECONDS,
    )
    return done.stdout.strip("\n")


def store_hashes() -> list[StoreHash]:
    """Return what dvc.lock names, or nothing where there is none yet."""
    try:
        return lock_hashes(YAML(typ="safe").load(LOCK.read_text(encoding="utf-8")) or {})
    except (OSError, ValueError, YAMLError, AttributeError):
        return []
