"""An extraction that is killed repeatedly resumes and writes the same bytes as an undisturbed one."""

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
    project = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=250)
    project.run_in_process(("manifest", "left"))
    return project


@pytest.fixture(scope="module")
def undisturbed(project):
    """Run the extraction without a kill; return the digest of the store and the size of the log."""
    project.run_in_process(EMBED)
    digest = tree_digest(project.folder / STORE)
    size = rows_logged(project)
    shutil.rmtree(project.folder / STORE)
    shutil.rmtree(project.folder / ".referee")
    return digest, size


def kill_when_logged(project, target):
    """Start the stage and kill it once the log has ``target`` bytes; return whether it was still running."""
    process = project.start(*STAGE, *EMBED)
    while process.poll() is None and rows_logged(project) < target:
        time.sleep(0.002)
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def test_killed_extraction_resumes_and_ends_byte_identical(project, undisturbed):
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
    assert 0 < embedded_now < 800, output  # of 1,000: the killed runs' rows were reused
    assert not list((project.folder / STORE).parent.glob(".*partial"))


@pytest.mark.long
def test_extraction_in_another_environment_is_byte_identical(project, undisturbed, tmp_path):
    """Change the folder, order of files, batch size, workers, threads, user, language and time zone."""
    digest, _ = undisturbed
    mate = SmallProject(tmp_path / "another folder" / "with another name")
    for name in ("weights", "data/left"):
        for file, content in reversed(files_in(project.folder / name).items()):
            copy = mate.folder / name / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    mate.write_params(project.read_params())
    mate.change_params(runtime={"workers": 5, "batch_size": 7})
    variables = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
    variables |= {"USER": "mate", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
    mate.stage("manifest", "left", **variables)
    mate.stage(*EMBED, **variables)
    assert tree_digest(mate.folder / STORE) == digest
    for stage in (("embed", "left", "clip"), ("prompts", "left")):
        mate.stage(*stage, **variables)
        project.run_in_process(stage)
    for name in ("manifests/left", "embeddings/left/clip.zarr", "prompts/left.zarr"):
        assert tree_digest(mate.folder / "cache" / name) == tree_digest(project.folder / "cache" / name)
