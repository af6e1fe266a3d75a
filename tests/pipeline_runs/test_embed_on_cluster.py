"""`embed` on a real Dask cluster: killed, late and slow workers change no byte; a failing cluster is one line."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from dask_cluster import RealCluster, wait_until
from pipeline.store.progress_log import DIGEST_BYTES, HEADER
from small_project import ROOT, SmallProject, tree_digest

pytestmark = pytest.mark.slow

STORE = "cache/embeddings/left/vit.zarr"
IMAGES = 600
VIEWS = 3
DIGITS = {"img_size": 32, "patch_size": 4, "embed_dim": 128, "depth": 5, "num_heads": 4}
DIGITS |= {"class_token": False, "global_pool": "avg"}


def logged(project):
    """Return how often each image is in the logs, all views together."""
    found = Counter()
    for file in (project.folder / ".referee" / "progress").rglob("*.rows"):
        data, at = file.read_bytes(), 0
        while at + HEADER.size <= len(data):
            _, count, width, itemsize, _ = HEADER.unpack_from(data, at)
            end = at + HEADER.size + count * (DIGEST_BYTES + width * itemsize)
            if end > len(data):
                break
            first = at + HEADER.size
            found.update(data[first + i * DIGEST_BYTES :][:DIGEST_BYTES] for i in range(count))
            at = end
    return found


def rows(project):
    return sum(logged(project).values())


def forget(project):
    shutil.rmtree(project.folder / ".referee", ignore_errors=True)
    shutil.rmtree(project.folder / STORE, ignore_errors=True)


def start(project, address):
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.stages", "embed", "left", "vit"],
        cwd=project.folder,
        env=project.environment(DASK_SCHEDULER_ADDRESS=address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def one_line(done):
    """Return the one line of a run that failed with status 2."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("referee: error: ")
    return lines[0]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create(per_class=IMAGES // 4)
    params = made.read_params()
    params["models"]["vit"] |= {"origin": str(ROOT / "weights/digits/vit"), "kwargs": DIGITS}
    made.write_params(params)
    made.run_here(("manifest", "left"))
    return made


@pytest.fixture(scope="module")
def undisturbed(project):
    """The bytes of a run in one process."""
    project.stage("embed", "left", "vit")
    digest = tree_digest(project.folder / STORE)
    forget(project)
    return digest


@pytest.fixture
def cluster(tmp_path, project):
    forget(project)
    with RealCluster(tmp_path / "cluster") as made:
        yield made


@pytest.mark.long
def test_a_killed_a_late_and_a_slow_worker_change_no_byte(project, undisturbed, cluster):
    doomed, slow = cluster.add_worker(), cluster.add_worker()
    run = start(project, cluster.address)
    wait_until(lambda: rows(project) > 0 or run.poll() is not None, "first rows")
    slow.slow_down()
    late = cluster.add_worker()
    doomed.kill()
    killed_at = rows(project)
    output, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    assert {line.split(":")[0] for line in errors.splitlines()} <= {"embed"}  # progress and nothing else
    assert killed_at < VIEWS * IMAGES, "the worker was killed too late to matter"
    assert tree_digest(project.folder / STORE) == undisturbed
    assert f"{IMAGES} embedded now" in output
    found = logged(project)
    assert len(found) == IMAGES  # nothing lost
    assert set(found.values()) == {VIEWS}  # nothing doubled
    assert late.process.poll() is None


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP], ids=["lost", "hanging"])
def test_without_its_scheduler_it_is_one_line_and_goes_on_without_a_cluster(project, undisturbed, cluster, ending):
    cluster.add_worker()
    run = start(project, cluster.address)
    wait_until(lambda: rows(project) > 0 or run.poll() is not None, "first rows")
    cluster.scheduler.send_signal(ending)
    _, errors = run.communicate(timeout=200)
    line = one_line(subprocess.CompletedProcess([], run.returncode, "", errors))
    assert "the scheduler is gone" in line
    assert "unset DASK_SCHEDULER_ADDRESS" in line
    assert not (project.folder / STORE).exists()
    kept = rows(project) // VIEWS
    assert 0 < kept < IMAGES
    again = project.stage("embed", "left", "vit").stdout
    assert f"{IMAGES - kept} embedded now" in again  # and not the others once more
    assert tree_digest(project.folder / STORE) == undisturbed


def run_with(project, cluster):
    return project.stage("embed", "left", "vit", ok=False, DASK_SCHEDULER_ADDRESS=cluster.address)


@pytest.mark.long
def test_a_worker_of_another_version_is_one_line(project, cluster, tmp_path):
    other = tmp_path / "other" / "pillow-1.0.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pillow\nVersion: 1.0.0\n")
    path = filter(None, (str(other.parent), os.environ.get("PYTHONPATH")))
    cluster.add_worker(PYTHONPATH=os.pathsep.join(path))
    line = one_line(run_with(project, cluster))
    assert f"worker tcp://{cluster.networks.host.rpartition('.')[0]}" in line
    assert "pillow 1.0.0" in line
    assert "constraints.txt" in line
    assert rows(project) == 0


@pytest.mark.long
def test_a_worker_with_other_code_that_joins_late_is_one_line(project, cluster, tmp_path):
    shutil.copytree(ROOT / "pipeline", tmp_path / "older" / "pipeline")
    with (tmp_path / "older" / "pipeline" / "errors.py").open("a") as file:
        file.write("\nCHANGED = 1\n")
    run = start(project, cluster.address)
    assert "no worker yet" in run.stderr.readline()
    cluster.add_worker(PYTHONPATH=str(tmp_path / "older"))
    _, errors = run.communicate(timeout=120)
    line = one_line(subprocess.CompletedProcess([], run.returncode, "", errors))
    assert "runs other code of this package" in line
    assert "restart the worker" in line
    assert rows(project) == 0


def can_hide_folders():
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.long
@pytest.mark.skipif(not can_hide_folders(), reason="no right to make a mount namespace")
@pytest.mark.parametrize("hidden", ["", "data"])
def test_a_worker_that_does_not_see_our_files_is_one_line(project, cluster, hidden):
    folder = project.folder / hidden
    hide = f'mount -t tmpfs none "{folder}" && exec "$@"'
    cluster.add_worker(before=("unshare", "--mount", "sh", "-c", hide, "sh"))
    line = one_line(run_with(project, cluster))
    # the folder itself, by the file we leave in it; or an image, where other folders are seen
    assert f"does not see {folder}{'/' if hidden else ';'}" in line
    assert "worker tcp://" in line
    assert not list((project.folder / ".referee" / "scratch").iterdir())


def test_no_scheduler_is_one_line(project):
    done = project.stage("embed", "left", "vit", ok=False, DASK_SCHEDULER_ADDRESS="tcp://127.0.0.1:9")
    line = one_line(done)
    assert "DASK_SCHEDULER_ADDRESS=tcp://127.0.0.1:9: no scheduler answers" in line


@pytest.mark.long
def test_an_image_that_cannot_be_read_names_the_worker_and_keeps_the_rest(project, cluster):
    bad = project.folder / "data" / "left" / "dog" / "0.png"
    kept = bad.read_bytes()
    bad.write_bytes(kept + b"x")
    try:
        cluster.add_worker()
        line = one_line(run_with(project, cluster))
    finally:
        bad.write_bytes(kept)
    assert "dog/0.png" in line
    assert "(on worker tcp://" in line
    assert rows(project) > 0


def unplug_one(cluster, workers):
    if not cluster.networks.apart:
        pytest.skip("no right to make network namespaces")
    cluster.networks.cut(2)  # the first worker's: nobody is line, packets vanish


def kill_all_and_start_others(cluster, workers):
    for worker in workers:
        worker.kill()
    cluster.add_worker()


@pytest.mark.long
@pytest.mark.parametrize("disturb", [unplug_one, kill_all_and_start_others])
def test_lost_workers_change_no_byte(project, undisturbed, cluster, disturb):
    workers = [cluster.add_worker(), cluster.add_worker()]
    run = start(project, cluster.address)
    wait_until(lambda: rows(project) > 0 or run.poll() is not None, "first rows")
    disturb(cluster, workers)
    disturbed_at = rows(project)
    _, errors = run.communicate(timeout=400)
    errors = [line for line in errors.splitlines() if not line.startswith("embed: ")]  # progress of a busy machine
    assert (run.returncode, errors) == (0, [])
    assert disturbed_at < VIEWS * IMAGES
    assert tree_digest(project.folder / STORE) == undisturbed
    assert Counter(logged(project).values()) == {VIEWS: IMAGES}
