"""`inspect --remote` and `summary --remote` where something is amiss; with a server: pipeline_runs/test_sharing.py."""

import json
import shutil

import numpy as np
import pytest

from pipeline.cli.main import main
from pipeline.store.array_store import write_arrays
from small_project import SmallProject

# DVC's own use of pygtrie, which warns wherever an index of outputs is built.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")

STORE = "cache/source/left.zarr"
STAGES = """\
stages:
  store: {cmd: "true", outs: [cache/source/left.zarr]}
  probe: {cmd: "true", metrics: [results/probes/left.json]}
"""


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """A repository of two outputs that were pushed to a folder, and of which none is here any more."""
    project = SmallProject(tmp_path_factory.mktemp("pushed") / "project")
    project.folder.mkdir()
    project.git_init()
    project.run("dvc", "init", "--quiet")
    (project.folder / "dvc.yaml").write_text(STAGES)
    arrays = {"means": np.zeros((3, 400)), "W": np.zeros((2, 2), np.float32)}
    write_arrays(project.folder / STORE, "referee-source/2", arrays, {"classes": ["ant"]})
    (project.folder / "results/probes").mkdir(parents=True)
    (project.folder / "results/probes/left.json").write_text("{}")
    project.run("dvc", "commit", "--force", "--quiet")
    project.run("referee", "share", "--create", str(project.folder.parent / "remote"))
    project.run("dvc", "push", "--quiet")
    project.commit("results")
    for gone in (".dvc/cache", "cache", "results"):
        shutil.rmtree(project.folder / gone)
    return project.folder.parent


@pytest.fixture
def clone(pushed, tmp_path, monkeypatch):
    """Be in a copy of the repository with a remote of its own; return the folder of the remote."""
    shutil.copytree(pushed, tmp_path, dirs_exist_ok=True)
    config = tmp_path / "project/.dvc/config"
    config.write_text(config.read_text().replace(str(pushed), str(tmp_path)))
    monkeypatch.chdir(tmp_path / "project")
    SmallProject(tmp_path / "project").commit("moved")
    return tmp_path / "remote"


def test_a_store_is_read_and_not_pulled(clone, capsys):
    assert main(["inspect", "--remote", STORE]) == 0
    text = capsys.readouterr().out
    assert "means           float64   [3, 400]" in text
    assert 'classes         ["ant"]' in text
    assert main(["inspect", "--remote", "--json", STORE]) == 0
    facts = json.loads(capsys.readouterr().out)[STORE]
    assert facts["arrays"]["W"] == {"shape": [2, 2], "dtype": "float32", "settings": {}}
    assert facts["bytes_read"] < 3 * 400 * 8 < facts["bytes"]
    for folder in ("cache", ".dvc/cache"):
        assert not (clone.parent / "project" / folder).exists()


def test_what_is_not_there(clone, refused):
    assert "cache/none.zarr: " in refused(main, "inspect", "--remote", "cache/none.zarr")
    line = refused(main, "inspect", "--remote", "results/probes/left.json")
    assert "results/probes/left.json: not a Zarr store" in line
    shutil.rmtree(clone)
    line = refused(main, "inspect", "--remote", STORE)
    assert STORE in line
    assert "dvc push" in line
    (clone.parent / "project/.dvc/config").write_text("")
    assert "referee share URL" in refused(main, "inspect", "--remote", STORE)


@pytest.mark.parametrize("content", [b"", b"[", b"[{}]", b"7", None], ids=str)
def test_a_damaged_object_is_one_line(clone, refused, content):
    """The list of a store's files, and (None) the files, are not what their names say."""
    for file in [file for file in clone.rglob("*") if file.is_file()]:
        if (content is None) != file.name.endswith(".dir"):
            file.chmod(0o644)
            file.write_bytes(file.read_bytes()[:-1] + b"!" if content is None else content)
    assert STORE in refused(main, "inspect", "--remote", STORE)
