"""SIGKILL a real extraction again and again: it resumes, and the store ends as if nothing had happened."""

import hashlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from small_project import SmallProject

pytestmark = pytest.mark.slow

STORE = "cache/embeddings/left/vit.zarr"
KILLS = 4


def tree_digest(path):
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return hashlib.sha256(
        b"".join(str(file.relative_to(path)).encode() + file.read_bytes() for file in files)
    ).hexdigest()


def rows_logged(project):
    return sum(file.stat().st_size for file in (project.folder / ".referee").rglob("*.rows"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=250)
    made.stage("manifest", "left")
    return made


@pytest.fixture(scope="module")
def undisturbed(project):
    project.stage("embed", "left", "vit")
    digest = tree_digest(project.folder / STORE)
    size = rows_logged(project)
    shutil.rmtree(project.folder / STORE)
    shutil.rmtree(project.folder / ".referee")
    return digest, size


def start(project):
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.stages.embed", "left", "vit"],
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
    told = project.stage("embed", "left", "vit").stdout
    assert tree_digest(project.folder / STORE) == digest
    embedded_now = int(told.split("; ")[1].split()[0])
    assert 0 < embedded_now < 700, told  # of 1,000: the killed runs' work was taken up
    assert not list((project.folder / STORE).parent.glob(".*partial"))


def test_other_workers_and_batches_end_byte_identical(project, undisturbed):
    digest, _ = undisturbed
    shutil.rmtree(project.folder / ".referee", ignore_errors=True)
    project.change_params(runtime={"workers": 5, "batch_size": 7})
    project.stage("embed", "left", "vit", OMP_NUM_THREADS="3")
    assert tree_digest(project.folder / STORE) == digest
