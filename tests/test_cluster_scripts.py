"""The scripts of cluster/ start workers, run a command with them and stop everything at the end."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dask_cluster import wait_until
from real_slurm import RealSlurm, needs_slurm
from small_project import ROOT, STAGE, SmallProject, tree_digest

pytestmark = pytest.mark.slow

PROBE = """
import os, sys, time
from pathlib import Path
from pipeline.extraction.cluster import cluster_from_environment
def answer(_item):
    time.sleep(0.05)
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()
with cluster_from_environment(Path(".referee/scratch")) as cluster:
    while cluster.threads() < 2:
        time.sleep(0.1)
    answers = set(cluster.map(answer, range(20)))
print(sorted(answers, key=str))
sys.exit(7)
"""


def script(name, *arguments):
    return sys.executable, str(ROOT / "cluster" / f"{name}.py"), *arguments


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_local_script_starts_one_worker_per_gpu_and_returns_the_command_s_status():
    done = run(*script("on_this_machine", "--gpus", "0,3", "--", sys.executable, "-c", PROBE))
    assert done.returncode == 7, done.stderr
    answers = eval(done.stdout)
    assert [gpu for gpu, _ in answers] == ["0", "3"]
    for _, pid in answers:
        assert not Path(f"/proc/{pid}").exists(), "a worker is still running"
    logs = {file.name for file in Path(".referee/cluster").iterdir()}
    assert logs == {"scheduler.log", "worker-0.log", "worker-1.log"}


def test_local_script_without_gpu_needs_gpus_option():
    done = run(*script("on_this_machine", "--", "true"))
    if "no GPU here" not in done.stderr:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "directives", "threads", "end"),
    [
        ((), ("--gres=gpu:1", "-t 12:00:00"), 1, ""),  # a GPU takes one block at a time
        (("--gpus", "0", "--lifetime", "3h", "--directive=-w n1"), ("-w n1",), 12, "--lifetime 3h"),
    ],
)
def test_slurm_job_is_one_worker_with_one_gpu_or_all_its_cores(folder, arguments, directives, threads, end):
    options = ("--jobs", "4", "--partition", "gpu", "--cores", "12", "--memory", "64GB", "--print-job")
    done = run(*script("on_slurm", *options, *arguments))
    assert done.returncode == 0, done.stderr
    parsed = run("bash", "-n", text=done.stdout)
    assert (parsed.returncode, parsed.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for line in ("-p gpu", "-n 1", "--cpus-per-task=12", *directives):
        assert f"#SBATCH {line}" in lines
    assert ("gres" in done.stdout) == (threads == 1)
    assert f"cd {folder}" in lines
    worker = lines[-1]
    assert worker.startswith(f"{sys.executable} -m distributed.cli.dask_worker tcp://")
    assert f"--nthreads {threads} " in worker
    assert worker.endswith(end)


def test_invalid_lifetime_is_refused_before_a_job_is_submitted():
    done = run(*script("on_slurm", "--jobs", "1", "--lifetime", "11h50m", "--print-job"))
    assert done.returncode == 2
    assert "--lifetime 11h50m: one number and a unit, e.g. 710m or 12h" in done.stderr


@pytest.mark.long
@needs_slurm
def test_embed_with_a_cancelled_slurm_job_gives_the_same_bytes_as_one_process(folder):
    project = SmallProject(folder).create(per_class=250)
    store = folder / "cache/embeddings/left/vit.zarr"
    project.run_in_process(("manifest", "left"), ("embed", "left", "vit"))
    expected = tree_digest(store)
    shutil.rmtree(store)
    shutil.rmtree(folder / ".referee")
    options = ("--jobs", "2", "--partition", "gpu", "--cores", "1", "--memory", "2GB")
    with RealSlurm(folder / "slurm") as slurm:
        command = script("on_slurm", *options, "--", *STAGE, "embed", "left", "vit")
        process = project.start(*command, **slurm.environment)
        wait_until(lambda: " R " in slurm.run("squeue", "--noheader"), "a running job")
        slurm.run("scancel", "1")
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "1000 embedded now" in output
        wait_until(lambda: not slurm.run("squeue", "--noheader").strip(), "the jobs to be gone")
    assert tree_digest(store) == expected
    assert list((folder / ".referee" / "cluster").glob("dask-worker-*.err"))
