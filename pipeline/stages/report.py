"""Stage `report`: results/report.html, one page of everything that was measured.

Reads what the stages wrote under results/, and images where there are any. The page is not cached, so never pushed: it
may hold thumbnails of images, and it names the git revision.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.errors import exits_cleanly
from pipeline.params import Params, load_params
from pipeline.report.page.drawing_library import drawing_library
from pipeline.report.page.page import PageContent, page
from pipeline.report.page.pictures import Album
from pipeline.report.page.problem_results import ProblemResults, read_metrics, read_problem_tables
from pipeline.report.page.provenance import Provenance, StoreHash, lock_hashes
from pipeline.report.published import read_published
from pipeline.report.suite_results import Suite
from pipeline.report.suite_tables import comparison_table, headline_table
from pipeline.stages import places
from pipeline.stages.shown_pictures import read_pictures
from pipeline.stages.tables import read_suite, read_sweeps
from pipeline.write_aside import write_aside

LOCK = Path("dvc.lock")
DECIDES = ("pipeline", "dvc.yaml", "params.yaml")  # uncommitted changes here are worth a word
SECONDS = 20


def read_problems(params: Params, suite: Suite) -> list[ProblemResults]:
    """Return what was written about every problem."""
    sweeps = read_sweeps(params)
    return [
        ProblemResults(
            name=name,
            source=problem.source,
            target=problem.target,
            metrics=read_metrics(places.metrics(name), f"evaluate@{name}"),
            methods=suite.results[name],
            sweeps=sweeps.get(name, {}),
            **read_problem_tables(places.tables(name), f"evaluate@{name}"),
        )
        for name, problem in params.problems.items()
    ]


def revision() -> str:
    """Return git's revision of the work tree, or why it is not known."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", *DECIDES)
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
        timeout=SECONDS,
    )
    return done.stdout.strip("\n")


def stores() -> list[StoreHash]:
    """Return what dvc.lock names, or nothing where there is none yet."""
    try:
        return lock_hashes(YAML(typ="safe").load(LOCK.read_text(encoding="utf-8")) or {})
    except (OSError, ValueError, YAMLError, AttributeError):
        return []


def content(params: Params) -> PageContent:
    """Return all that the page shows."""
    suite = read_suite(params)
    problems = read_problems(params, suite) if params.problems else []
    album = Album()
    pictures = {problem.name: read_pictures(params, problem, album) for problem in problems}
    methods = comparison_table(suite, read_published()).parts() if problems else []
    return PageContent(
        suite=params.suite,
        variant=params.method.variant,
        headline=headline_table(suite) if problems else None,
        methods=methods,
        problems=problems,
        pictures=pictures,
        album=album.pictures,
        provenance=Provenance(
            params.model_dump(mode="json", exclude={"runtime"}), revision(), stores()
        ),
        drawing=drawing_library(),
    )


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write results/report.html."""
    argparse.ArgumentParser(
        prog="python -m pipeline.stages.report", description=__doc__
    ).parse_args(argv)
    made = page(content(load_params()))
    with write_aside(places.report()) as aside:
        aside.write_text(made, encoding="utf-8")
    sys.stdout.write(f"report: {places.report()}, {len(made.encode()) / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
