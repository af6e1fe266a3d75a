"""`inspect --remote` and `summary --remote` where something is amiss; where all is well, see test_sharing_s3.py."""

import json
import shutil

import pytest

from pipeline.cli.main import main
from pipeline.store.array_store import write_arrays
from small_project import SmallProject

# DVC's own use of pygtrie, which says so wherever an index of outputs is built.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")

STAGES = """\
stages:
  store: {cmd: "true", outs: [cache/source/left.zarr]}
  probe: {cmd: "true", metrics: [results/probes/left.json]}
"""


@pytest.fixture
def pushed(tmp_path, monkeypatch):
    """A repository of two outputs that were pushed to a folder and are no longer here."""
    import numpy as np

    project = SmallProject(tmp_path / "project")
    project.folder.mkdir()
    project.run("git", "init", "--quiet")
    project.run("dvc", "init", "--quiet")
    (project.folder / "dvc.yaml").write_text(STAGES)
    write_arrays(
        project.folder / "cache/source/left.zarr",
        "referee-source/2",
        {"means": np.zeros((3, 400)), "W": np.zeros((2, 2), np.float32)},
        {"classes": ["ant"]},
    )
    (project.folder / "results/probes").mkdir(parents=True)
    (project.folder / "results/probes/left.json").write_text("{}")
    project.run("dvc", "commit", "--force", "--quiet")
    project.run("referee", "share", str(tmp_path / "remote"))
    project.run("dvc", "push", "--quiet")
    for gone in (".dvc/cache", "cache", "results"):
        shutil.rmtree(project.folder / gone)
    monkeypatch.chdir(project.folder)
    return project


def refused(capsys, *args):
    assert main(list(args)) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1, said
    return said


def test_a_store_is_read_and_not_pulled(pushed, capsys):
    assert main(["inspect", "--remote", "cache/source/left.zarr"]) == 0
    said = capsys.readouterr().out
    assert "means           float64   [3, 400]" in said
    assert 'classes       ["ant"]' in said
    assert main(["inspect", "--remote-name", "team", "--json", "cache/source/left.zarr"]) == 0
    told = json.loads(capsys.readouterr().out)["cache/source/left.zarr"]
    assert told["arrays"]["W"] == {"shape": [2, 2], "dtype": "float32", "settings": {}}
    assert told["bytes"] > 3 * 400 * 8
    assert told["bytes_read"] < 3 * 400 * 8
    assert not (pushed.folder / "cache").exists()
    assert not (pushed.folder / ".dvc/cache").exists()


def test_what_is_not_there(pushed, capsys, tmp_path):
    assert "cache/none.zarr: not an output" in refused(
        capsys, "inspect", "--remote", "cache/none.zarr"
    )
    said = refused(capsys, "inspect", "--remote", "results/probes/left.json")
    assert "results/probes/left.json: is a file" in said
    said = refused(capsys, "inspect", "--remote-name", "other", "cache/source/left.zarr")
    assert "other" in said
    shutil.rmtree(tmp_path / "remote")
    said = refused(capsys, "inspect", "--remote", "cache/source/left.zarr")
    assert "cache/source/left.zarr: not on the remote 'team'; whoever made it runs dvc push" in said
    (pushed.folder / "dvc.lock").unlink()
    said = refused(capsys, "inspect", "--remote", "cache/source/left.zarr")
    assert "dvc.lock does not name it" in said


@pytest.mark.parametrize("content", [b"", b"[", b"[{}]", b"7", None], ids=str)
def test_a_damaged_object_is_one_line(pushed, capsys, tmp_path, content):
    """The list of a store's files, and (None) one of the files, are not what their names say."""
    objects = [file for file in (tmp_path / "remote").rglob("*") if file.is_file()]
    for file in objects:
        if (content is None) != file.name.endswith(".dir"):
            file.chmod(0o644)
            file.write_bytes(file.read_bytes()[:-1] + b"!" if content is None else content)
    said = refused(capsys, "inspect", "--remote", "cache/source/left.zarr")
    assert "cache/source/left.zarr" in said
    assert "damaged on the remote 'team'" in said


def test_no_remote(pushed, capsys):
    pushed.run("dvc", "remote", "remove", "team")
    said = refused(capsys, "inspect", "--remote", "cache/source/left.zarr")
    assert "name its place: referee share URL" in said
