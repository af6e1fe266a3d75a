"""`embed` on a real Dask cluster: killed, late and slow workers change no byte; a failing cluster is one line."""

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


def logged(project):
    """Return how often each image is in the logs, all views together."""
    content = b"".join(file.read_bytes() for file in (project.folder / ".referee/progress").rglob("*.rows"))
    digests = (hashlib.sha256(image.read_bytes()).digest() for image in (project.folder / "data/left").rglob("*.png"))
    return +Counter({digest: content.count(digest) for digest in digests})


def rows(project):
    return logged(project).total()


def forget(project):
    shutil.rmtree(project.folder / ".referee", ignore_errors=True)
    shutil.rmtree(project.folder / STORE, ignore_errors=True)


def start(project, cluster):
    """Start the stage on a cluster."""
    return project.start(*STAGE, *EMBED, DASK_SCHEDULER_ADDRESS=cluster.address)


def at_work(project, cluster):
    """Start the stage on a cluster and wait for its first rows."""
    run = start(project, cluster)
    wait_until(lambda: rows(project) > 0 or run.poll() is not None, "first rows")
    return run


def ended(run):
    """Wait for a command's end; the progress that it shows on a busy machine is left out."""
    output, errors = run.communicate(timeout=400)
    lines = [line for line in errors.splitlines() if not line.startswith("embed: ")]
    return subprocess.CompletedProcess([], run.returncode, output, "\n".join(lines))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=IMAGES // 4)
    vit = made.read_params()["models"]["vit"]
    made.change_params(models={"vit": {**vit, "origin": str(ROOT / "weights/digits/vit"), "kwargs": DIGITS}})
    made.run_here(("manifest", "left"))
    return made


@pytest.fixture(scope="module")
def undisturbed(project):
    """The bytes of a run in one process."""
    project.stage(*EMBED)
    digest = tree_digest(project.folder / STORE)
    forget(project)
    return digest


@pytest.fixture
def cluster(tmp_path, project):
    forget(project)
    with RealCluster(tmp_path / "cluster") as made:
        yield made


def kill_one_slow_one_add_one(cluster, workers):
    workers[1].slow_down()
    cluster.add_worker()
    workers[0].kill()


def kill_all_and_add_one(cluster, workers):
    for worker in workers:
        worker.kill()
    cluster.add_worker()


def unplug_one(cluster, workers):
    if not cluster.networks.apart:
        pytest.skip("no right to make network namespaces")
    cluster.networks.cut(2)  # the first worker's: nobody is told, packets vanish


@pytest.mark.parametrize("disturb", [kill_one_slow_one_add_one, kill_all_and_add_one, unplug_one])
def test_lost_late_and_slow_workers_change_no_byte(project, undisturbed, cluster, disturb):
    workers = [cluster.add_worker(), cluster.add_worker()]
    run = at_work(project, cluster)
    disturb(cluster, workers)
    disturbed_at = rows(project)
    done = ended(run)
    assert (done.returncode, done.stderr) == (0, "")
    assert disturbed_at < VIEWS * IMAGES, "too late to matter"
    assert tree_digest(project.folder / STORE) == undisturbed
    assert f"{IMAGES} embedded now" in done.stdout
    assert Counter(logged(project).values()) == {VIEWS: IMAGES}  # nothing lost, nothing doubled
    assert disturb is unplug_one or cluster.workers[-1].process.poll() is None


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP], ids=["lost", "hanging"])
def test_without_its_scheduler_it_is_one_line_and_goes_on_without_a_cluster(project, undisturbed, cluster, ending):
    cluster.add_worker()
    run = at_work(project, cluster)
    cluster.scheduler.send_signal(ending)
    line = refusal(ended(run))
    assert "the scheduler is gone" in line
    assert "unset DASK_SCHEDULER_ADDRESS" in line
    assert not (project.folder / STORE).exists()
    kept = rows(project) // VIEWS
    assert 0 < kept < IMAGES
    again = project.stage(*EMBED).stdout
    assert f"{IMAGES - kept} embedded now" in again  # and not the others once more
    assert tree_digest(project.folder / STORE) == undisturbed


def test_a_worker_with_other_code_that_joins_late_is_one_line(project, cluster, tmp_path):
    shutil.copytree(ROOT / "pipeline", tmp_path / "older" / "pipeline")
    with (tmp_path / "older" / "pipeline" / "errors.py").open("a") as file:
        file.write("\nCHANGED = 1\n")
    run = start(project, cluster)
    assert "no worker yet" in run.stderr.readline()
    cluster.add_worker(PYTHONPATH=str(tmp_path / "older"))
    line = refusal(ended(run))
    assert "runs other code of this package" in line
    assert "restart the worker" in line
    assert rows(project) == 0


def can_hide_folders():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_hide_folders(), reason="no right to make a mount namespace")
@pytest.mark.parametrize("hidden", ["", "data"])
def test_a_worker_that_does_not_see_our_files_is_one_line(project, cluster, hidden):
    folder = project.folder / hidden
    hide = f'mount -t tmpfs none "{folder}" && exec "$@"'
    cluster.add_worker(before=("unshare", "--mount", "sh", "-c", hide, "sh"))
    line = project.refusal(*EMBED, DASK_SCHEDULER_ADDRESS=cluster.address)
    # the folder itself, by the file we leave in it; or an image, where other folders are seen
    assert f"does not see {folder}{'/' if hidden else ';'}" in line
    assert "worker tcp://" in line
    assert not list((project.folder / ".referee" / "scratch").iterdir())
