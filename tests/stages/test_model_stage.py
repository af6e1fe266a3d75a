"""Test that a teammate gets a folder of weights from git completely or not at all, never without its checkpoint."""

import subprocess

import pytest

from pipeline.encoders.recorded_weights import identify_weights
from pipeline.errors import ModelError


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)
    folder = tmp_path / "weights" / "mine"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"numbers")
    (folder / "README.md").write_text("mine\n")
    return folder


def test_a_folder_of_which_git_tracks_only_a_part_is_refused(repository):
    def add(name):
        subprocess.run(["git", "add", "--force", str(repository / name)], check=True)

    assert identify_weights(repository, "timm")["file"] == "model.safetensors"
    add("README.md")
    with pytest.raises(ModelError, match=r"weights/mine.*origin name the checkpoint file"):
        identify_weights(repository, "timm")
    assert identify_weights(repository / "model.safetensors", "timm")["bytes"] == 7
    add("model.safetensors")
    assert identify_weights(repository, "timm")["file"] == "model.safetensors"
