"""After `git pull` nothing is computed on what the former commit left in cache/, nor taken from DVC's run-cache."""

import hashlib
import json
import shutil

import pytest

from pipeline.store.embedding_store import ViewRows, open_embeddings, write_embeddings
from pipeline.workspace import is_cached
from small_project import ROOT, SmallProject, stages_run

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
def test_features_of_the_former_commit_stop_everything_until_they_are_replaced(project_copy, tmp_path):
    ben = SmallProject(shutil.copytree(project_copy.folder, tmp_path / "ben", symlinks=True))
    extract_anew(project_copy)
    shutil.rmtree(ben.folder / "data/left")
    ben.run("dvc", "remote", "add", "--quiet", "--local", "--default", "ada", str(project_copy.folder / ".dvc/cache"))
    ben.run("git", "pull", "--quiet", str(project_copy.folder), "HEAD")
    stopped = ben.run(*PULL, ok=False)
    assert stopped.returncode
    assert STORE in stopped.stderr
    assert "dvc pull --allow-missing" in stopped.stderr
    assert not stages_run(stopped.stdout)
    ben.run("dvc", "pull", "--quiet", "--allow-missing")
    assert not stages_run(ben.run(*PULL).stdout)
    assert ben.run("git", "status", "--porcelain").stdout == ""


def test_a_folder_is_cached_if_all_its_files_are(tmp_path):
    def keep(content, suffix=""):
        md5 = hashlib.md5(content).hexdigest() + suffix
        path = tmp_path / "files/md5" / md5[:2] / md5[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return md5, path

    (file, path) = keep(b"rows")
    (folder, _) = keep(json.dumps([{"md5": file, "relpath": "c/0/0"}]).encode(), ".dir")
    assert is_cached(folder, tmp_path)
    path.unlink()
    assert not is_cached(folder, tmp_path)


def test_the_lock_of_the_check_needs_no_commit():
    """It ships with the package, and stays as it is in every project."""
    lock, readme = ((ROOT / "checks" / name).read_bytes() for name in ("dvc.lock", "README.md"))
    assert hashlib.md5(readme).hexdigest().encode() in lock
