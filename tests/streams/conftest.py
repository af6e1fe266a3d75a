"""Fixtures: a small project with a fitted source, and streams of unlabelled images."""

import shutil

import pytest

from small_project import SmallProject, draw_domain, small_params
from stream_project import CLASSES, NAMES, add_domain, prepare, run, step_entry


@pytest.fixture(scope="session")
def source_project(tmp_path_factory):
    """Return a project with the source `left` fitted and the target `right` embedded, for tests to copy."""
    project = SmallProject(tmp_path_factory.mktemp("streams")).create(per_class=8)
    params = small_params()
    params["datasets"]["toy"]["class_names"] = NAMES
    params["runtime"] = {"device": "cpu", "workers": 1}
    project.write_params(params)
    (project.folder / "corrections.csv").write_text("path,class\n")
    prepare(project, "left", "right")
    run(project, "source left")
    return project


def copy_project(project, folder):
    shutil.copytree(project.folder, folder, symlinks=True)
    return SmallProject(folder)


@pytest.fixture(scope="session")
def weeks_project(source_project, tmp_path_factory):
    """Return the source project with two weeks of unlabelled photos without class folders, for tests to copy."""
    project = copy_project(source_project, tmp_path_factory.mktemp("weeks") / "project")
    for seed, week in ((7, "week1"), (8, "week2")):
        draw_domain(project.folder / "data" / week / "deep", CLASSES, 3, seed)
        for file in sorted((project.folder / "data" / week).rglob("*.png")):
            shutil.move(file, project.folder / "data" / week / f"{file.parent.name[0]}{file.name}")
    params = project.read_params()
    for week in ("week1", "week2"):
        add_domain(params, week, labels="none")
    params["steps"] = {
        "camera-week1": step_entry("source/left", "week1"),
        "camera-week2": step_entry("streams/camera-week1", "week2", ["bee", "dog"]),
    }
    project.write_params(params)
    prepare(project, "week1", "week2")
    return project


@pytest.fixture(scope="session")
def stepped_project(weeks_project, tmp_path_factory):
    """Return the project after the first week's step, for tests to copy."""
    project = copy_project(weeks_project, tmp_path_factory.mktemp("stepped") / "project")
    run(project, "step camera-week1")
    return project


def copy_of(name):
    """Return a fixture that copies the project of the fixture ``name`` and changes to its folder."""

    @pytest.fixture
    def copy(request, tmp_path, monkeypatch):
        project = copy_project(request.getfixturevalue(name), tmp_path / "project")
        monkeypatch.chdir(project.folder)
        return project

    return copy


project, weeks, stepped = map(copy_of, ("source_project", "weeks_project", "stepped_project"))
