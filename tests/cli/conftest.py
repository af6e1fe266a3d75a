import shutil

import pytest

import digits_project
from small_project import SmallProject


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
