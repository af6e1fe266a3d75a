"""Test that orders/DOMAIN.json keeps the order of the classes, so that a new class moves no image to another task.

`tests/pipeline_runs/test_dvc_repro.py` tests the same with DVC, which must leave the file in place.
"""

import json
import shutil

import pytest

from pipeline import paths
from pipeline.datasets.task_files import read_classes
from pipeline.stage import main as run_stage
from small_project import draw_domain

CLASSES = ("ant", "bee", "cat", "dog")


@pytest.fixture
def project(params_only):
    for name in ("left", "right"):
        draw_domain(params_only.folder / "data" / name, CLASSES, 2, 0)
    return params_only


def add_class(project, name):
    for domain in ("left", "right"):
        draw_domain(project.folder / "data" / domain, (name,), 2, 7)


def set_order(project, **order):
    project.change_params(datasets={"toy": {"classes_per_task": 2, "class_names": {}} | order})


def tasks_of_classes(domain="left"):
    for stage in ("manifest", "order", "tasks"):
        assert run_stage([stage, domain]) == 0
    return {row.class_name: row.task for row in read_classes(paths.manifest(domain))}


def test_new_classes_arrive_last_and_removed_classes_return_to_their_place(project, capsys):
    before = tasks_of_classes()
    for task, name in ((2, "cow"), (3, "ape")):  # not in alphabetical order
        add_class(project, name)
        capsys.readouterr()
        before |= {name: task}
        assert tasks_of_classes() == before
        assert f"arrive last: {name}\n" in capsys.readouterr().out
    assert tasks_of_classes("right") == before  # for which `order` had not run before
    file = project.folder / paths.order("left")
    kept = file.read_bytes()
    assert tasks_of_classes() == before
    assert file.read_bytes() == kept  # running again adds nothing
    set_order(project, classes_per_task=1)
    assert list(tasks_of_classes().values()) == [*range(6)]
    set_order(project)
    assert tasks_of_classes() == before
    for name in ("ant", "bee"):
        for domain in ("left", "right"):
            shutil.rmtree(project.folder / "data" / domain / name)
    assert tasks_of_classes() == {"cat": 0, "dog": 0, "cow": 1, "ape": 2}
    add_class(project, "ant")
    add_class(project, "bee")
    assert tasks_of_classes() == before


@pytest.mark.parametrize("content", ["<<<<<<< HEAD\n[]", "{}x", '[{"asked": {}}]', "[[1]]"])
def test_a_damaged_order_is_named_with_the_remedy(project, content, refused):
    tasks_of_classes()
    file = project.folder / "orders/right.json"
    file.write_text(content)
    error = refused(run_stage, "order", "left")
    assert "orders/right.json" in error
    assert "git" in error
    file.write_text(json.dumps([]))
    assert run_stage(["order", "left"]) == 0


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("eel", None, ("data/right: has no class folder 'eel', but data/left has", "class_names")),
        ("Eel", "eel", ("one name",)),
        ("\u00e4l", "a\u0308l", ("one name",)),
    ],
)
def test_a_class_of_only_one_domain_is_named_before_extraction(project, refused, left, right, words):
    draw_domain(project.folder / "data/left", (left,), 2, 7)
    if right:
        draw_domain(project.folder / "data/right", (right,), 2, 7)
    for domain in ("left", "right"):
        error = refused(run_stage, "manifest", domain)
        assert all(word in error for word in words)
