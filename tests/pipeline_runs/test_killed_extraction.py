"""SIGKILL a real extraction again and again: it resumes, and the store ends as if nothing had happened."""

import shutil
import signal
import subprocess
import sys
import time

import pytest

from shards import files_in, write_parquet
from small_project import SmallProject, tree_digest

pytestmark = pytest.mark.slow

STORE = "cache/embeddings/left/vit.zarr"
KILLS = 2


def rows_logged(project):
    return sum(file.stat().st_size for file in (project.folder / ".referee").rglob("*.rows"))


@pytest.fixture(scope="module", params=["folder", pytest.param("parquet", marks=pytest.mark.long)])
def project(request, tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=250)
    if request.param == "parquet":
        files = files_in(made.folder / "data/left")
        labels = [name.partition("/")[0] for name in files]
        shutil.rmtree(made.folder / "data/left")
        write_parquet(made.folder / "data/left/x.parquet", list(files.values()), label=labels)
    made.run_here(("manifest", "left"))
    return made


@pytest.fixture(scope="module")
def undisturbed(project):
    project.run_here(("embed", "left", "vit"))
    digest = tree_digest(project.folder / STORE)
    size = rows_logged(project)
    shutil.rmtree(project.folder / STORE)
    shutil.rmtree(project.folder / ".referee")
    return digest, size


def start(project):
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.stages", "embed", "left", "vit"],
        cwd=project.folder,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def kill_when_logged(project, process, target):
    """SIGKILL once the log has passed ``target`` bytes; return whether the process was still at work."""
    while process.poll() is None and rows_logged(project) < target:
        time.sleep(0.002)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


def test_killed_again_and_again_ends_byte_identical(project, undisturbed):
    digest, size = undisturbed
    killed = 0
    for kill in range(1, KILLS + 1):
        before = rows_logged(project)
        target = size * kill / (KILLS + 1)
        killed += kill_when_logged(project, start(project), target)
        assert not (project.folder / STORE).exists(), "a killed run left a store behind"
        assert rows_logged(project) >= before, "a killed run lost rows"
    assert killed == KILLS
    output = project.stage("embed", "left", "vit").stdout
    assert tree_digest(project.folder / STORE) == digest
    embedded_now = int(output.split("; ")[1].split()[0])
    assert 0 < embedded_now < 800, output  # of 1,000: the killed runs' work was taken up
    assert not list((project.folder / STORE).parent.glob(".*partial"))


@pytest.mark.long
def test_a_teammate_elsewhere_ends_byte_identical(project, undisturbed, tmp_path):
    """Another folder, order of files, batch size, workers, threads, user, language and time zone; the same hashes."""
    digest, _ = undisturbed
    mate = SmallProject(tmp_path / "another folder" / "with its own name")
    for name in ("weights", "data/left"):
        files = [file for file in (project.folder / name).rglob("*") if file.is_file()]
        for file in sorted(files, reverse=True):
            copy = mate.folder / file.relative_to(project.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    mate.write_params(project.read_params())
    mate.change_params(runtime={"workers": 5, "batch_size": 7})
    other = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
    other |= {"USER": "mate", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
    mate.stage("manifest", "left", **other)
    mate.stage("embed", "left", "vit", **other)
    others = ("cache/embeddings/left/clip.zarr", "cache/prompts/left.zarr")
    for stage in (("embed", "left", "clip"), ("prompts", "left")):
        mate.stage(*stage, **other)
        project.run_here(stage)
    for made in ("cache/manifests/left", *others):
        assert tree_digest(mate.folder / made) == tree_digest(project.folder / made)
    assert tree_digest(mate.folder / STORE) == digest
