"""`inspect --remote` reads a store on a remote and reports errors. With a server: pipeline_runs/test_sharing.py."""

import json
import shutil

import numpy as np
import pytest

from pipeline.cli.main import main
from pipeline.store.array_store import write_arrays
from small_project import SmallProject

# DVC uses pygtrie, which warns whenever an index of outputs is built
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")

STORE = "cache/source/left.zarr"
STAGES = """\
stages:
  store: {cmd: "true", outs: [cache/source/left.zarr]}
  probe: {cmd: "true", metrics: [results/probes/left.json]}
"""


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """Create a repository whose two outputs were pushed to a folder and then deleted; return its parent folder."""
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
    for name in (".dvc/cache", "cache", "results"):
        shutil.rmtree(project.folder / name)
    return project.folder.parent


@pytest.fixture
def clone(pushed, tmp_path, monkeypatch):
    """Change into a copy of the repository with its own remote; return the folder of the remote."""
    shutil.copytree(pushed, tmp_path, dirs_exist_ok=True)
    config = tmp_path / "project/.dvc/config"
    config.write_text(config.read_text().replace(str(pushed), str(tmp_path)))
    monkeypatch.chdir(tmp_path / "project")
    SmallProject(tmp_path / "project").commit("moved")
    return tmp_path / "remote"


def test_inspect_reads_a_store_without_pulling_it(clone, capsys):
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


def test_missing_stores_and_remotes_are_reported(clone, refused):
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
def test_damaged_objects_are_reported_in_one_line(clone, refused, content):
    """Damage the list of a store's files or, if ``content`` is None, the files."""
    for file in [file for file in clone.rglob("*") if file.is_file()]:
        if (content is None) != file.name.endswith(".dir"):
            file.chmod(0o644)
            file.write_bytes(file.read_bytes()[:-1] + b"!" if content is None else content)
    assert STORE in refused(main, "inspect", "--remote", STORE)
