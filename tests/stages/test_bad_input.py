"""Test stages on bad input: they fail with one line and status 2, and neither write nor delete anything in cache/."""

import shutil

import numpy as np
import pytest

from pipeline.stage import main

pytestmark = pytest.mark.slow

VIT = "weights/vit/model.safetensors"


@pytest.fixture
def project(project_copy, monkeypatch):
    """Return a copy of the finished project without the progress of extraction."""
    monkeypatch.chdir(project_copy.folder)
    shutil.rmtree(".referee")
    return project_copy


@pytest.fixture
def refused(project, refused):
    """Return a function that runs a failing stage, checks that cache/ is unchanged, and returns the error line."""

    def run(*arguments):
        before = files(project)
        line = refused(main, *arguments)
        assert files(project) == before
        return line

    return run


def files(project):
    return {file: file.read_bytes() for file in project.folder.glob("cache/**/*") if file.is_file()}


def test_missing_damaged_or_wrong_weights_are_named(project, refused):
    weights = project.folder / VIT
    weights.write_bytes(weights.read_bytes()[:1000])
    assert VIT in refused("embed", "left", "vit")
    shutil.copy(project.folder / "weights/clip/open_clip_model.safetensors", weights)
    assert "vit_tiny_patch16_224" in refused("embed", "left", "vit")
    shutil.rmtree(weights.parent)
    for stage in (("embed", "left", "vit"), ("model", "vit")):
        assert "weights/vit: no such file or folder" in refused(*stage)


def test_one_matrix_cannot_be_imported_for_two_domains(project, refused):
    """Other defects of imported embeddings are in tests/extraction/test_imported.py."""
    np.save(project.folder / "x.npy", np.ones((24, 4), np.float32))
    model = {"library": "imported", "name": "theirs", "origin": "x.npy", "views": ["original"]}
    project.change_params(models={"vit": model})
    line = refused("embed", "left", "vit")
    assert "x.npy" in line
    assert "left.npy, right.npy" in line


def test_imported_prompts_without_a_class_are_refused(project, refused):
    np.savez(
        project.folder / "t.npz",
        text=np.eye(3, 16, dtype=np.float32),
        class_names=np.array(["ant", "bee", "cat"]),
        logit_scale=np.float32(10),
    )
    model = {"library": "imported", "name": "theirs", "origin": "t.npz"}
    project.change_params(models={"clip": model})
    line = refused("prompts", "left")
    assert "t.npz" in line
    assert "'dog'" in line
