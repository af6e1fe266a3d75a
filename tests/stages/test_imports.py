"""Check that stages start quickly: they import torch, timm or open_clip only if they run a model."""

import json
import subprocess
import sys

import pytest

from pipeline.stage import stage_names
from small_project import PROBLEM, ROOT, all_stages, small_params

pytestmark = pytest.mark.slow

HEAVY = ("torch", "torchvision", "timm", "open_clip", "pandas", "sklearn", "matplotlib", "dvc")
HEAVY += ("dask", "distributed")
# Forks a child per stage, so that none starts with modules that another imported, and prints the heavy ones of each.
FORKING = """
import importlib, json, os, sys
import pipeline.stage, pipeline.problem.problem  # imported by all stages
for name, arguments in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        if arguments is None:
            importlib.import_module(f"pipeline.stages.{name}")
        else:
            from pipeline.stage import main
            sys.stdout = sys.stderr
            assert main(arguments) == 0
        found = [heavy for heavy in json.loads(sys.argv[2]) if heavy in sys.modules]
        os.write(1, (json.dumps([name, found]) + "\\n").encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def heavy_imports(cases, folder):
    """Return {stage: heavy packages that it imported}."""
    process = subprocess.run(
        [sys.executable, "-c", FORKING, json.dumps(cases), json.dumps(HEAVY)],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return {name: set(found) for name, found in map(json.loads, process.stdout.splitlines())}


def test_importing_the_module_of_a_stage_imports_nothing_heavy():
    imports = heavy_imports([(name, None) for name in stage_names()], ROOT)
    assert imports == {name: set() for name in stage_names()}


def test_adapting_without_refinement_imports_nothing_heavy(project_copy):
    assert heavy_imports([("adapt", ["adapt", PROBLEM])], project_copy.folder) == {"adapt": set()}


@pytest.mark.long
def test_only_stages_that_run_a_model_import_its_library(run_project):
    names = {" ".join(stage): stage for stage in all_stages(small_params())}
    imports = heavy_imports(list(names.items()), run_project.folder)
    assert imports["embed left vit"] == {"torch", "torchvision", "timm"}  # and not open_clip
    assert "open_clip" in imports["embed right clip"]
    assert "open_clip" in imports["prompts right"]
    assert "torch" not in imports["report"]  # the earlier run cached the views of its images
    assert imports["model vit"] == {"dvc"}  # to read the weights recorded in dvc.lock
    others = ("embed", "prompts", "model", "tables", "report")
    assert not {name: heavy for name, heavy in imports.items() if name.split()[0] not in others and heavy}
