"""Weights as git gives them to a teammate: absent, or all there; never a folder without its checkpoint."""

import subprocess

import pytest

from pipeline.errors import ModelError
from pipeline.stages.model import require_same_in_clones, weights


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)
    folder = tmp_path / "weights" / "mine"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"numbers")
    (folder / "README.md").write_text("mine\n")
    return folder


def add(*paths):
    subprocess.run(["git", "add", "--force", *map(str, paths)], check=True)


def test_a_folder_of_which_git_has_a_part_is_refused(repository):
    add(repository / "README.md")
    with pytest.raises(ModelError, match=r"weights/mine.*origin name the checkpoint file"):
        require_same_in_clones(repository.relative_to(repository.parents[1]))
    with pytest.raises(ModelError):
        weights(repository, "timm")
    assert weights(repository / "model.safetensors", "timm")["bytes"] == 7


@pytest.mark.parametrize("tracked", [(), ("README.md", "model.safetensors")])
def test_a_folder_that_is_wholly_in_git_or_not_at_all_is_fine(repository, tracked):
    if tracked:
        add(*(repository / name for name in tracked))
    assert weights(repository, "timm")["file"] == "model.safetensors"


def test_no_suite_names_weights_of_which_git_has_a_part():
    """What the repository itself ships: every folder of weights/ in git is whole."""
    from small_project import ROOT

    tracked = subprocess.run(
        ["git", "ls-files", "weights"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    folders = {path.split("/")[1] for path in tracked if path.count("/") > 1}
    assert folders == {"digits"}
