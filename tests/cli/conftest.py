import shutil
from pathlib import Path

import pytest

from digits_project import PROBLEM
from pipeline.stage import main as run_stage
from small_project import SmallProject

FITTED = (("source", "mnist"), ("adapt", PROBLEM))


@pytest.fixture
def here(digits, monkeypatch):
    """Be in the shipped default in small; return its folder."""
    monkeypatch.chdir(digits)
    return digits


@pytest.fixture
def lookalike(digits, tmp_path, monkeypatch):
    """Be in a project that has everything of `digits` by links, and settings and folders of its own."""
    folder = tmp_path / "project"
    (folder / "cache").mkdir(parents=True)
    for name in ("params.yaml", "suite.yaml"):
        shutil.copy(digits / name, folder)
    for path in [*digits.glob("cache/*"), *(digits / name for name in ("data", "weights"))]:
        (folder / path.relative_to(digits)).symlink_to(path)
    monkeypatch.chdir(folder)
    return SmallProject(folder)


@pytest.fixture
def adapted_as(lookalike):
    """Return a function that fits the project anew under other keys of `method`, and returns its folder."""

    def fit(method):
        lookalike.change_params(method=method)
        for name in ("source", "target"):
            Path("cache", name).unlink()
        for stage in FITTED:
            assert run_stage(stage) == 0
        return lookalike.folder

    return fit
