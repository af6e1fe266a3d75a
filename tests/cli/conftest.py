import pytest

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
