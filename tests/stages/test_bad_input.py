"""Bad input at the stages: one line that names the thing, status 2, nothing half-written, nothing lost."""

import shutil

import numpy as np
import pytest

from pipeline.stage import main

pytestmark = pytest.mark.slow

VIT = "weights/vit/model.safetensors"


@pytest.fixture
def project(project_copy, monkeypatch):
    """A copy of the project that was run, without what extraction had kept."""
    monkeypatch.chdir(project_copy.folder)
    shutil.rmtree(".referee")
    return project_copy


@pytest.fixture
def refused(project, refused):
    """Run a stage that must fail; return its one line, after seeing that it wrote and left nothing."""

    def run(*arguments):
        before = files(project)
        line = refused(main, *arguments)
        assert files(project) == before
        return line

    return run


def files(project):
    return {file: file.read_bytes() for file in project.folder.glob("cache/**/*") if file.is_file()}


def test_weights_that_are_missing_damaged_or_another_models(project, refused):
    weights = project.folder / VIT
    weights.write_bytes(weights.read_bytes()[:1000])
    assert VIT in refused("embed", "left", "vit")
    shutil.copy(project.folder / "weights/clip/open_clip_model.safetensors", weights)
    assert "vit_tiny_patch16_224" in refused("embed", "left", "vit")
    shutil.rmtree(weights.parent)
    for stage in (("embed", "left", "vit"), ("model", "vit")):
        assert "weights/vit: no such file or folder" in refused(*stage)


def test_imported_embeddings_that_are_not_those_of_the_domain(project, refused):
    """What else may be wrong with them is in tests/extraction/test_imported.py."""
    np.save(project.folder / "x.npy", np.ones((24, 4), np.float32))
    model = {"library": "imported", "name": "theirs", "origin": "x.npy", "views": ["original"]}
    project.change_params(models={"vit": model})
    line = refused("embed", "left", "vit")  # one matrix in manifest order cannot be that of two domains
    assert "x.npy" in line
    assert "left.npy, right.npy" in line


def test_prompts_without_a_text_for_a_class(project, refused):
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
