"""Start-up time is a feature: a stage imports torch, timm or open_clip only where it runs a model."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from small_project import ROOT, SmallProject

pytestmark = pytest.mark.slow

HEAVY = ("torch", "torchvision", "timm", "open_clip", "pandas", "sklearn", "matplotlib", "dvc")
HEAVY += ("dask", "distributed")
STAGES = sorted(set(re.findall(r"pipeline\.stages\.(\w+)", (ROOT / "dvc.yaml").read_text())))
WATCHED = """
import atexit, json, runpy, sys
def tell():
    with open("imported.json", "w") as file:
        json.dump([name for name in {heavy!r} if name in sys.modules], file)
atexit.register(tell)
sys.argv = {arguments!r}
runpy.run_module({module!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return SmallProject(tmp_path_factory.mktemp("project")).create(per_class=4)


def imported_by(project, stage, *arguments):
    """Run a stage as dvc.yaml does; return which heavy packages it had imported when it ended."""
    module = f"pipeline.stages.{stage}"
    script = WATCHED.format(heavy=HEAVY, arguments=[module, *arguments], module=module)
    project.run(sys.executable, "-c", script)
    return set(json.loads((project.folder / "imported.json").read_text()))


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_has_nothing_to_run_imports_nothing_heavy(stage):
    """Modules alone; the long test below runs every stage."""
    script = f"import pipeline.stages.{stage}, sys; print(*set({HEAVY!r}) & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert set(found.stdout.split()) == ({"matplotlib"} if stage == "generate" else set())


@pytest.mark.long
def test_only_what_runs_a_model_imports_one(project):
    (project.folder / "pipeline").symlink_to(ROOT / "pipeline")
    for stage in (("code",), ("model", "vit"), ("model", "clip")):
        assert imported_by(project, *stage) == set(), stage
    for domain in ("left", "right"):
        assert imported_by(project, "manifest", domain) == set()
    vit = imported_by(project, "embed", "left", "vit")
    assert vit == {"torch", "torchvision", "timm"}  # and not open_clip
    project.stage("embed", "right", "vit")
    assert "open_clip" in imported_by(project, "embed", "right", "clip")
    project.stage("embed", "left", "clip")
    assert "open_clip" in imported_by(project, "prompts", "right")
    project.stage("prompts", "left")
    for stage in (
        *(("probe", "right"), ("basis", "left"), ("source", "left")),
        *(("pseudo_label", "left-right"), ("refine", "left-right"), ("adapt", "left-right")),
        *(("evaluate", "left-right"), ("compare", "left-right"), ("sensitivity", "left-right")),
        ("tables",),
    ):
        assert imported_by(project, *stage) == set(), stage
    assert imported_by(project, "report") == {"torch"}  # which draws the views of images
    shutil.rmtree(project.folder / "data")
    assert imported_by(project, "report") == set()
