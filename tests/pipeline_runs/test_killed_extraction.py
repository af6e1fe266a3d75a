"""SIGKILL a real extraction again and again: it resumes, and the store ends as if nothing had happened."""

import shutil
import time

import pytest

from shards import files_in
from small_project import STAGE, SmallProject, tree_digest

pytestmark = pytest.mark.slow

EMBED = ("embed", "left", "vit")
STORE = "cache/embeddings/left/vit.zarr"
KILLS = 2


def rows_logged(project):
    return sum(file.stat().st_size for file in (project.folder / ".referee").rglob("*.rows"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=250)
    made.run_here(("manifest", "left"))
    return made


@pytest.fixture(scope="module")
def undisturbed(project):
    project.run_here(EMBED)
    digest = tree_digest(project.folder / STORE)
    size = rows_logged(project)
    shutil.rmtree(project.folder / STORE)
    shutil.rmtree(project.folder / ".referee")
    return digest, size


def kill_when_logged(project, target):
    """Start the stage, SIGKILL it once the log has passed ``target`` bytes; return whether it was still at work."""
    process = project.start(*STAGE, *EMBED)
    while process.poll() is None and rows_logged(project) < target:
        time.sleep(0.002)
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def test_killed_again_and_again_ends_byte_identical(project, undisturbed):
    digest, size = undisturbed
    killed = 0
    for kill in range(1, KILLS + 1):
        before = rows_logged(project)
        killed += kill_when_logged(project, target=size * kill / (KILLS + 1))
        assert not (project.folder / STORE).exists(), "a killed run left a store behind"
        assert rows_logged(project) >= before, "a killed run lost rows"
    assert killed == KILLS
    output = project.stage(*EMBED).stdout
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
        for file, content in reversed(files_in(project.folder / name).items()):
            copy = mate.folder / name / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    mate.write_params(project.read_params())
    mate.change_params(runtime={"workers": 5, "batch_size": 7})
    other = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
    other |= {"USER": "mate", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
    mate.stage("manifest", "left", **other)
    mate.stage(*EMBED, **other)
    assert tree_digest(mate.folder / STORE) == digest
    for stage in (("embed", "left", "clip"), ("prompts", "left")):
        mate.stage(*stage, **other)
        project.run_here(stage)
    for made in ("manifests/left", "embeddings/left/clip.zarr", "prompts/left.zarr"):
        assert tree_digest(mate.folder / "cache" / made) == tree_digest(project.folder / "cache" / made)
