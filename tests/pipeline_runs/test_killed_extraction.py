"""An extraction that is killed repeatedly resumes and writes the same bytes as an undisturbed one."""

import shutil
import signal
import sys

import pytest

from shards import files_in
from small_project import SmallProject, tree_digest

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


# kills its own process after so many batches of a view, whatever the speed of the machine
KILLED_STAGE = """
import os, signal, sys
from pipeline.stage import main
from pipeline.store.progress_log import ProgressLog

append, remaining = ProgressLog.append, int(sys.argv[1])

def append_or_die(*arguments):
    global remaining
    append(*arguments)
    remaining -= 1
    if not remaining:
        os.kill(os.getpid(), signal.SIGKILL)

ProgressLog.append = append_or_die
main(sys.argv[2:])
"""


def test_killed_extraction_resumes_and_ends_byte_identical(project, undisturbed):
    digest, size = undisturbed
    for _ in range(KILLS):
        before = rows_logged(project)
        done = project.run(sys.executable, "-c", KILLED_STAGE, "60", *EMBED, ok=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (project.folder / STORE).exists(), "a killed run left a store behind"
        assert before < rows_logged(project) < size, "a killed run lost rows"
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
