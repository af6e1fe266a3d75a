"""The table of docs/what-runs-again.md: each row's change is made, and the stages that run are those of the row."""

import os
import re
import shutil
from pathlib import Path

import pytest

from pipeline_runs.changes import BEFORE, CHANGES
from repro_here import Graph
from small_project import ROOT, SmallProject

# DVC in this process: its own warnings are its own affair
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SWEEPS = {"sensitivity_D", "sensitivity_sigma", "select"}
METHOD = {"source", "adapt", "evaluate", "compare", *SWEEPS}
NOT_LISTED = {"code", "order", "tables", "report"}
PAGE = (ROOT / "docs/what-runs-again.md").read_text(encoding="utf-8")
LINES = [line.strip("| \n").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = {cells[0]: cells[1:] for cells in LINES if len(cells) == 3 and cells[0] != "change"}
IF_CHANGED = re.compile(", and (.*) if .* changes?")
EDITED = ("params.yaml", "suite.yaml", "dvc.lock")
# one row of each kind in `make test`; all of them in `make test-long`
FEW = {
    "a comment, a docstring, formatting", "an image added", "a domain added", "`data.seeds`",
    "`datasets.DATASET.class_order_seed`", "`datasets.DATASET.tasks` (the order of today, pinned)",
    "`domains.DOMAIN.templates`", "`views.noise`", "weights replaced", "weights absent",
    "code of the method", "`rff.sigma`", "`method.variant`", "`compare.methods`", "`runtime`",
}  # fmt: skip


def expected(cell, of_first):
    """Return the stages that a cell names, without those that run only if outputs change."""
    if cell == "the same":
        return of_first
    if cell == "as if one was added":
        kind = "class" if of_first == "class" else "image"
        return expected(ROWS[f"{'a' if kind == 'class' else 'an'} {kind} added"][0], set())
    cell = re.sub(IF_CHANGED, "", cell)
    stages = set(re.findall(r"`([a-zD_]+)`", cell)) | (SWEEPS if "the sweeps" in cell else set())
    return stages | (METHOD if "the method" in cell else set())


def copy(finished, folder, *, images):
    """Copy the finished project, by links where nothing is written in place."""

    def link(source, target):
        (shutil.copy if source.endswith(EDITED) else os.link)(source, target)

    def skip(parent, names):
        if parent.endswith(".dvc"):
            return {"cache", "tmp"}
        if Path(parent) == finished:
            return {".referee"}
        mine = Path(parent).name in ("data", "weights") and not images
        return set(names) - {"README.md"} if mine else set()

    shutil.copytree(finished, folder, symlinks=True, copy_function=link, ignore=skip)
    return SmallProject(folder)


@pytest.fixture(scope="module")
def before(finished):
    return Graph(finished).state()


def run(change, finished, before, folder, monkeypatch, *, images):
    """Return the stages that a change runs, without those that the table leaves out."""
    project = copy(finished, folder, images=images or change in BEFORE)
    if change in BEFORE:
        BEFORE[change](project, monkeypatch)
        Graph(project.folder).repro(before)
        before = Graph(project.folder).state()
        if not images:
            shutil.rmtree(project.folder / "data")
    CHANGES[change](project, monkeypatch)
    return {stage for stage in Graph(project.folder).repro(before) if stage.split("@")[0] not in NOT_LISTED}


def names(ran):
    return {re.split("[@ ]", stage)[0] for stage in ran}


def test_every_change_of_the_table_is_made_and_no_other():
    assert ROWS
    assert set(ROWS) == set(CHANGES)


CASES = [
    pytest.param(change, images, marks=() if change in FEW else pytest.mark.long)
    for change, (_, without) in ROWS.items()
    for images in (True, False)
    if images or without != "–"
]


@pytest.mark.parametrize(("change", "images"), CASES)
def test_a_row(change, images, finished, before, tmp_path, monkeypatch):
    cells = ROWS[change]
    kind = "class" if change.startswith("a class") else set()
    with_images = expected(cells[0], kind)
    wanted = with_images if images else expected(cells[1], with_images)
    ran = run(change, finished, before, tmp_path / "project", monkeypatch, images=images)
    cell = cells[0] if images or cells[1] == "the same" else cells[1]
    may_run = set().union(*(expected(part, set()) for part in re.findall(IF_CHANGED, cell)))
    assert names(ran) - may_run == wanted - may_run, sorted(ran)
    failed = {stage for stage in ran if stage.endswith("failed")}
    assert bool(failed) == cell.startswith(("needs", "refused")), failed
    if "that domain" in cell or "its domain" in cell:
        of_domains = {s for s in ran if s.startswith(("manifest", "tasks", "embed", "prompts"))}
        other = "third" if "domain added" in change or change in BEFORE else "right"
        assert all(re.split("[@ -]", stage)[1] == other for stage in of_domains), of_domains
    if "that model" in cell:
        used = {stage.split("-")[-1] for stage in ran if stage.startswith("embed")}
        assert len(used) == 1, used
