import importlib
import shutil
from pathlib import Path

import pytest

import digits_project
from small_project import SmallProject

FITTED = (
    ("source", "mnist"),
    *((stage, "mnist-uci") for stage in ("pseudo_label", "refine", "adapt")),
)


@pytest.fixture(scope="package")
def embedded(tmp_path_factory):
    """Return a small project whose domain `left` has been through every stage."""
    made = SmallProject(tmp_path_factory.mktemp("embedded")).create(per_class=3)
    params = made.read_params()
    del params["domains"]["right"]
    params["problems"], params["sources"], params["swept"] = {}, {}, {}
    made.write_params(params)
    for stage in (
        ("manifest", "left"),
        ("embed", "left", "vit"),
        ("embed", "left", "clip"),
        ("prompts", "left"),
        ("probe", "left"),
    ):
        made.stage(*stage)
    return made


@pytest.fixture
def here(embedded, monkeypatch):
    monkeypatch.chdir(embedded.folder)
    return embedded


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Return the folder of the shipped default in small, through every stage; read it, do not change it."""
    return digits_project.shared(tmp_path_factory.getbasetemp())


@pytest.fixture
def lookalike(digits, tmp_path, monkeypatch):
    """Be in a project that has everything of `digits` by links, and a params.yaml and folders of its own."""
    folder = tmp_path / "project"
    (folder / "cache").mkdir(parents=True)
    shutil.copy(digits / "params.yaml", folder)
    for place in [*digits.glob("cache/*"), *(digits / name for name in ("data", "weights"))]:
        (folder / place.relative_to(digits)).symlink_to(place)
    monkeypatch.chdir(folder)
    return SmallProject(folder)


@pytest.fixture
def adapted_as(lookalike):
    """Return a function that fits the project anew under other keys of `method`, and returns its folder."""

    def fit(method):
        lookalike.change_params(method=method)
        for name in ("source", "pseudo_labels", "refined", "target"):
            Path("cache", name).unlink()
        for stage, of in FITTED:
            assert importlib.import_module(f"pipeline.stages.{stage}").main([of]) == 0
        return lookalike.folder

    return fit
