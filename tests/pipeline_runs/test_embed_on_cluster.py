"""`embed` on a real Dask cluster: killed, late and slow workers change no byte; failures are reported in one line."""

import hashlib
import shutil
import signal
import subprocess
from collections import Counter

import pytest

from dask_cluster import RealCluster, wait_until
from small_project import ROOT, STAGE, SmallProject, refusal, tree_digest

pytestmark = [pytest.mark.slow, pytest.mark.long]

EMBED = ("embed", "left", "vit")
STORE = "cache/embeddings/left/vit.zarr"
IMAGES = 600
VIEWS = 3
DIGITS = {"img_size": 32, "patch_size": 4, "embed_dim": 128, "depth": 5, "num_heads": 4}
DIGITS |= {"class_token": False, "global_pool": "avg"}


def count_logged(project):
    """Return the number of logged rows per image, over all views."""
    content = b"".join(file.read_bytes() for file in (project.folder / ".referee/progress").rglob("*.rows"))
    digests = (hashlib.sha256(image.read_bytes()).digest() for image in (project.folder / "data/left").rglob("*.png"))
    return +Counter({digest: content.count(digest) for digest in digests})


def total_logged(project):
    return count_logged(project).total()


def delete_outputs(project):
    shutil.rmtree(project.folder / ".referee", ignore_errors=True)
    shutil.rmtree(project.folder / STORE, ignore_errors=True)


def start(project, cluster):
    """Start the stage on a cluster."""
    return project.start(*STAGE, *EMBED, DASK_SCHEDULER_ADDRESS=cluster.address)


def start_and_wait(project, cluster):
    """Start the stage on a cluster and wait for its first rows."""
    process = start(project, cluster)
    wait_until(lambda: total_logged(project) > 0 or process.poll() is not None, "first rows")
    return process


def wait_for_end(process):
    """Wait for a process; return its result without the progress lines that a busy machine shows."""
    output, errors = process.communicate(timeout=400)
    lines = [line for line in errors.splitlines() if not line.startswith("embed: ")]
    return subprocess.CompletedProcess([], process.returncode, output, "\n".join(lines))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=IMAGES // 4)
    vit = project.read_params()["models"]["vit"]
    project.change_params(models={"vit": {**vit, "origin": str(ROOT / "weights/digits/vit"), "kwargs": DIGITS}})
    project.run_in_process(("manifest", "left"))
    return project


@pytest.fixture(scope="module")
def expected(project):
    """Return the digest of the store written by a run in one process."""
    project.stage(*EMBED)
    digest = tree_digest(project.folder / STORE)
    delete_outputs(project)
    return digest


@pytest.fixture
def cluster(tmp_path, project):
    delete_outputs(project)
    with RealCluster(tmp_path / "cluster") as running:
        yield running


def kill_slow_down_and_add_one(cluster, workers):
    workers[1].slow_down()
    cluster.add_worker()
    workers[0].kill()


def kill_all_and_add_one(cluster, workers):
    for worker in workers:
        worker.kill()
    cluster.add_worker()


def unplug_one(cluster, workers):
    if not cluster.networks.apart:
        pytest.skip("no permission to create network namespaces")
    cluster.networks.cut(2)  # the network of the first worker: packets vanish without an error


@pytest.mark.parametrize("disturb", [kill_slow_down_and_add_one, kill_all_and_add_one, unplug_one])
def test_lost_late_and_slow_workers_change_no_byte(project, expected, cluster, disturb):
    workers = [cluster.add_worker(), cluster.add_worker()]
    process = start_and_wait(project, cluster)
    disturb(cluster, workers)
    logged_before = total_logged(project)
    done = wait_for_end(process)
    assert (done.returncode, done.stderr) == (0, "")
    assert logged_before < VIEWS * IMAGES, "too late to matter"
    assert tree_digest(project.folder / STORE) == expected
    assert f"{IMAGES} embedded now" in done.stdout
    assert Counter(count_logged(project).values()) == {VIEWS: IMAGES}  # nothing is lost or duplicated
    assert disturb is unplug_one or cluster.workers[-1].process.poll() is None


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP], ids=["lost", "hanging"])
def test_lost_scheduler_is_one_line_and_the_next_run_resumes_locally(project, expected, cluster, ending):
    cluster.add_worker()
    process = start_and_wait(project, cluster)
    cluster.scheduler.send_signal(ending)
    line = refusal(wait_for_end(process))
    assert "the scheduler is gone" in line
    assert "unset DASK_SCHEDULER_ADDRESS" in line
    assert not (project.folder / STORE).exists()
    kept = total_logged(project) // VIEWS
    assert 0 < kept < IMAGES
    assert f"{IMAGES - kept} embedded now" in project.stage(*EMBED).stdout
    assert tree_digest(project.folder / STORE) == expected


def test_late_worker_with_other_code_is_refused(project, cluster, tmp_path):
    shutil.copytree(ROOT / "pipeline", tmp_path / "older" / "pipeline")
    with (tmp_path / "older" / "pipeline" / "errors.py").open("a") as file:
        file.write("\nCHANGED = 1\n")
    process = start(project, cluster)
    assert "no worker yet" in process.stderr.readline()
    cluster.add_worker(PYTHONPATH=str(tmp_path / "older"))
    line = refusal(wait_for_end(process))
    assert "runs other code of this package" in line
    assert "restart the worker" in line
    assert total_logged(project) == 0


def can_hide_folders():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_hide_folders(), reason="no permission to create a mount namespace")
@pytest.mark.parametrize("hidden", ["", "data"])
def test_worker_that_does_not_see_the_files_is_refused(project, cluster, hidden):
    folder = project.folder / hidden
    hide = f'mount -t tmpfs none "{folder}" && exec "$@"'
    cluster.add_worker(before=("unshare", "--mount", "sh", "-c", hide, "sh"))
    line = project.refusal(*EMBED, DASK_SCHEDULER_ADDRESS=cluster.address)
    # the folder itself, noticed by a test file in it, or an image if other folders are visible
    assert f"does not see {folder}{'/' if hidden else ';'}" in line
    assert "worker tcp://" in line
    assert not list((project.folder / ".referee" / "scratch").iterdir())
