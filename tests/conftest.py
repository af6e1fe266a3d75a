"""Order of the test files, and one small project that is run once for all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from small_project import SmallProject, make_once, run_and_commit


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort files with slow tests to the front: the last ones to finish are then short."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the small project, all stages run and committed to DVC and git; to be copied only."""
    return make_once(tmp_path_factory.getbasetemp(), "finished", run_and_commit)


@pytest.fixture(scope="module")
def run_project(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    """Return a copy of the finished project for one test file."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(finished, folder, symlinks=True)
    return SmallProject(folder)


@pytest.fixture
def project_copy(finished: Path, tmp_path: Path) -> SmallProject:
    """Return a copy of the finished project for one test."""
    shutil.copytree(finished, tmp_path / "project", symlinks=True)
    return SmallProject(tmp_path / "project")
