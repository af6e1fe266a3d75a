"""Sort the test files and provide projects to test in."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import digits_project
from small_project import ROOT, SmallProject, make_once, small_params


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so that no worker starts a long one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


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


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small version of the shipped digits project, run and committed. Do not change it."""
    return make_once(tmp_path_factory.getbasetemp(), "digits", digits_project.make)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change into a folder that contains only the shipped parameters and suites."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "suites", "suites")
    for name in ("params.yaml", "suite.yaml"):
        shutil.copy(ROOT / name, name)
    return tmp_path


@pytest.fixture
def params_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    """Change into a folder that contains only the parameters of the small project."""
    monkeypatch.chdir(tmp_path)
    project = SmallProject(tmp_path)
    project.write_params(small_params())
    return project


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs a command, checks that it fails with one line and status 2, and returns the line."""

    def run(main: Callable[[list[str]], int], *arguments: str) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == 2
        printed = capsys.readouterr()
        (line,) = printed.err.strip().splitlines()
        assert printed.out == ""
        assert line.startswith("referee: error: ")
        return line

    return run
