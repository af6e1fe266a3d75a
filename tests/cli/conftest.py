import shutil
from pathlib import Path

import pytest

from digits_project import PROBLEM
from pipeline.stage import main as run_stage
from small_project import SmallProject

FITTED = (("source", "mnist"), ("adapt", PROBLEM))


@pytest.fixture
def digits_cwd(digits, monkeypatch):
    """Change into the small digits project; return its folder."""
    monkeypatch.chdir(digits)
    return digits


@pytest.fixture
def linked_project(digits, tmp_path, monkeypatch):
    """Change into a project with its own settings, whose other files are links to the small digits project."""
    folder = tmp_path / "project"
    (folder / "cache").mkdir(parents=True)
    for name in ("params.yaml", "suite.yaml"):
        shutil.copy(digits / name, folder)
    for path in [*digits.glob("cache/*"), *(digits / name for name in ("data", "weights"))]:
        (folder / path.relative_to(digits)).symlink_to(path)
    monkeypatch.chdir(folder)
    return SmallProject(folder)


@pytest.fixture
def refit(linked_project):
    """Return a function that fits the project again with other values in `method`."""

    def fit(method):
        linked_project.change_params(method=method)
        for name in ("source", "target"):
            Path("cache", name).unlink()
        for stage in FITTED:
            assert run_stage(stage) == 0

    return fit
