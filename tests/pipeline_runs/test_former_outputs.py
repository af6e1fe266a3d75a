"""After `git pull` without `dvc pull`, DVC computes on features of the former commit: `referee summary` says so."""

import shutil

import pytest

from pipeline.store.embedding_store import ViewRows, open_embeddings, write_embeddings
from small_project import SmallProject

STORE = "cache/embeddings/left/vit.zarr"
PULL = ("dvc", "repro", "--pull", "--allow-missing", "evaluate@left-right")


def extract_anew(project):
    """Write other numbers, as another kind of GPU does from the same images, weights and settings."""
    path = project.folder / STORE
    store = open_embeddings(path)
    provenance = {key: value for key, value in store.provenance.items() if key not in ("schema", "views")}
    rows = {
        view: ViewRows(store.rows, store.width, "float16", store.settings(view), [store.read(view) * 1.5])
        for view in store.views
    }
    write_embeddings(path, rows, provenance)
    project.run("dvc", "commit", "--quiet", "--force")
    project.run("git", "commit", "--quiet", "-am", "extracted anew")


@pytest.mark.slow
def test_results_on_features_of_the_former_commit_are_named(project_copy, tmp_path):
    ben = SmallProject(shutil.copytree(project_copy.folder, tmp_path / "ben", symlinks=True))
    extract_anew(project_copy)
    shutil.rmtree(ben.folder / "data/left")
    ben.run("dvc", "remote", "add", "--quiet", "--local", "--default", "ada", str(project_copy.folder / ".dvc/cache"))
    ben.run("git", "pull", "--quiet", str(project_copy.folder), "HEAD")
    ben.run(*PULL)
    shown = ben.run("referee", "summary").stdout
    assert f"source@left was run on a former {STORE}" in shown
    assert "dvc pull --allow-missing" in shown
    ben.run("dvc", "pull", "--quiet", "--allow-missing")
    ben.run(*PULL)
    assert f"source@left was run on a former {STORE}" not in ben.run("referee", "summary").stdout
