"""The statistics stages on a real Dask cluster: by seeds to the byte, by ranges of rows to 1e-12."""

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr

from benchmarks.imported_project import ImportedProject
from dask_cluster import RealCluster
from pipeline.execution.cluster import ADDRESS, Cluster
from pipeline.execution.cluster_ranges import ClusterRanges
from pipeline.method import task_features
from pipeline.method.row_ranges import IMAGES
from pipeline.stages import places
from small_project import SmallProject

pytestmark = pytest.mark.slow

CACHE = (
    *(("manifest", "a"), ("manifest", "b"), ("model", "vit"), ("model", "clip")),
    *(("embed", "a", "vit"), ("embed", "a", "clip"), ("embed", "b", "vit"), ("embed", "b", "clip")),
    *(("prompts", "a"), ("prompts", "b"), ("basis", "a")),
)
STAGES = (
    *(("source", "a"), ("pseudo_label", "a-b"), ("refine", "a-b"), ("adapt", "a-b")),
    *(("evaluate", "a-b"), ("compare", "a-b")),
)
METHODS = ["source_only", "calibrated", "released", "ranpac-pseudo"]
OUTPUTS = (
    *("cache/source", "cache/pseudo_labels", "cache/target"),
    *("results/metrics", "results/tables", "results/comparison"),
)


def run(*stages):
    for stage, *arguments in stages:
        assert importlib.import_module(f"pipeline.stages.{stage}").main(arguments) == 0


def made(folder, rows):
    """Make everything before the statistics, in this process."""
    project = ImportedProject(folder)
    sizes = {"source": rows, "target": rows, "classes": 4, "per_task": 2, "width": 64}
    project.write(
        **sizes,
        rff={"D": 40, "sigma": 1e-4},
        data={"seeds": [0, 1, 2]},
        compare={"methods": METHODS},
    )
    run(*CACHE)


def digests():
    files = sorted(file for folder in OUTPUTS for file in walk(folder))
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def walk(folder):
    return [file for file in Path(folder).rglob("*") if file.is_file()]


def forget():
    for folder in OUTPUTS:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with RealCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add_worker()
        cluster.add_worker()
        yield cluster.address


@pytest.fixture
def spied(monkeypatch):
    """Count the calls that hand work out."""
    calls = {"seeds": 0, "sums": 0, "lists": 0}

    def count(owner, name, key):
        original = getattr(owner, name)

        def counted(*args):
            calls[key] += 1
            return original(*args)

        monkeypatch.setattr(owner, name, counted)

    count(Cluster, "each", "seeds")
    count(ClusterRanges, "summed", "sums")
    count(ClusterRanges, "listed", "lists")
    return calls


def test_whole_seeds_give_the_same_bytes(tmp_path, monkeypatch, address, spied):
    monkeypatch.chdir(tmp_path)
    made(tmp_path, 400)
    run(*STAGES)
    here = digests()
    assert len(here) > 10
    forget()
    monkeypatch.setenv(ADDRESS, address)
    run(*STAGES)
    assert digests() == here
    assert spied == {"seeds": 5, "sums": 0, "lists": 0}


def read(path):
    group = zarr.open_group(path, mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def test_ranges_of_rows_give_the_same_statistics(tmp_path, monkeypatch, address, spied):
    monkeypatch.chdir(tmp_path)
    made(tmp_path, 6 * IMAGES)  # two tasks of three blocks
    run(*STAGES[:5])
    here = {path: read(path) for path in (places.source_model("a"), places.target_model("a-b"))}
    told = json.loads(places.metrics("a-b").read_text())
    forget()
    monkeypatch.setenv(ADDRESS, address)
    monkeypatch.setattr(task_features, "KEPT_BYTES", 0)  # as if there were a hundred times the rows
    run(*STAGES[:5])
    assert spied["seeds"] == 0
    assert spied["sums"] >= 2 * 3 * 2  # source and target, seeds, tasks
    assert spied["lists"] > 0
    for path, arrays in here.items():
        there = read(path)
        assert set(there) == set(arrays)
        for name, mine in arrays.items():
            assert_same(there[name], mine, f"{path}/{name}")
    assert json.loads(places.metrics("a-b").read_text()) == told


def assert_same(theirs, mine, name):
    """Statistics to 1e-12 of the largest; a solve may make more of the last bits, float32 of a stored scatter less."""
    if mine.dtype.kind in "ib":
        assert np.array_equal(theirs, mine), name
        return
    tolerance = {"scatter": 1e-7, "W": 1e-8, "b": 1e-8, "fused": 1e-8, "weight": 1e-8}
    allowed = tolerance.get(name.rpartition("/")[2], 1e-12)
    assert np.array_equal(np.isnan(theirs), np.isnan(mine)), name
    assert np.nanmax(np.abs(theirs - mine)) <= allowed * np.nanmax(np.abs(mine)), name


def process(stage, *arguments):
    """Run a stage as DVC does."""
    subprocess.run([sys.executable, "-m", f"pipeline.stages.{stage}", *arguments], check=True)


@pytest.mark.long
def test_many_rows_with_a_killed_a_late_and_a_slow_worker(tmp_path, monkeypatch):
    """Rows that are really too many to be kept, in stages that are processes of their own."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    project = ImportedProject(tmp_path / "project")
    project.write(
        source=48_000, target=48_000, classes=4, per_task=2, width=64,
        rff={"D": 1000, "sigma": 1e-4}, data={"seeds": [0]},
    )  # fmt: skip
    run(*CACHE)
    for stage in STAGES[:5]:
        process(*stage)
    here = read(places.target_model("a-b"))
    forget()
    with RealCluster(tmp_path / "cluster") as cluster:
        doomed, slow = cluster.add_worker(), cluster.add_worker()
        slow.slow_down()
        monkeypatch.setenv(ADDRESS, cluster.address)
        for stage in STAGES[:3]:
            process(*stage)

        def disturb():
            cluster.add_worker()
            doomed.kill()

        disturber = threading.Timer(4.0, disturb)
        disturber.start()
        process(*STAGES[3])
        disturber.join()
        assert doomed.process.poll() is not None
        process(*STAGES[4])
    for name, mine in here.items():
        assert_same(read(places.target_model("a-b"))[name], mine, name)


@pytest.mark.long
def test_dvc_repro_on_a_cluster_leaves_the_same_lock_file(tmp_path):
    """The user's story: one variable set; then unset, and nothing is to be done."""
    project = SmallProject(tmp_path / "project")
    project.folder.mkdir()
    project.create(dvc=True)
    project.run("dvc", "repro", "--no-run-cache", "evaluate@left-right")
    here = (project.folder / "dvc.lock").read_text()
    for folder in ("cache/embeddings", "cache/source", "cache/pseudo_labels", "cache/target"):
        shutil.rmtree(project.folder / folder)
    for folder in (".referee", ".dvc/cache", "results/metrics"):
        shutil.rmtree(project.folder / folder)
    (project.folder / "dvc.lock").unlink()
    with RealCluster(tmp_path / "cluster") as cluster:
        cluster.add_worker()
        cluster.add_worker()
        os.environ[ADDRESS] = cluster.address
        try:
            project.run("dvc", "repro", "--no-run-cache", "evaluate@left-right")
        finally:
            del os.environ[ADDRESS]
    assert (project.folder / "dvc.lock").read_text() == here
    assert project.repro("evaluate@left-right") == set()
