"""`referee pin`: the order of the classes stands in suite.yaml, and a new class moves no image to another task.

The command of docs/how-to/own-data.md, after the stages that `dvc repro tasks` would run.
"""

import pytest

from pipeline.cli.main import main
from pipeline.datasets.manifest_files import read_classes
from pipeline.params import load_params
from pipeline.stage import main as run_stage
from small_project import SmallProject, draw_domain, small_params

CLASSES = ("ant", "bee", "cat", "dog")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = SmallProject(tmp_path)
    project.write_params(small_params())
    for name in ("left", "right"):
        draw_domain(tmp_path / "data" / name, CLASSES, 2, 0)
    return project


def tasks_of_classes(project):
    assert run_stage(["manifest", "left"]) == run_stage(["tasks", "left"]) == 0
    rows = read_classes(project.folder / "cache/manifests/left/classes.csv")
    return {row.class_name: row.task for row in rows}


@pytest.mark.parametrize("seed", [None, 1993])
def test_a_pinned_order_survives_a_new_class(project, seed):
    if seed:
        toy = {"classes_per_task": 2, "class_names": {}, "class_order_seed": seed}
        project.change_params(datasets={"toy": toy})
    before = tasks_of_classes(project)
    assert main(["pin"]) == 0
    assert tasks_of_classes(project) == before
    for name in ("left", "right"):
        draw_domain(project.folder / "data" / name, ("ape",), 2, 7)
    assert tasks_of_classes(project) == before | {"ape": 2}
    assert main(["pin"]) == 0
    assert load_params().datasets["toy"].tasks[0] == tuple(n for n, t in before.items() if t == 0)


def test_without_a_manifest_there_is_no_order(project, capsys):
    assert main(["pin"]) == 2
    assert "dvc repro tasks" in capsys.readouterr().err


def test_a_class_that_only_one_domain_has_is_named_before_extraction(project, capsys):
    draw_domain(project.folder / "data/left", ("eel",), 2, 7)
    for domain in ("left", "right"):
        assert run_stage(["manifest", domain]) == 2
        error = capsys.readouterr().err
        assert "data/right: has no class folder 'eel', but data/left has" in error
        assert "class_names" in error
