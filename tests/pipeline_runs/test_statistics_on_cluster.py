"""The statistics stages on a real Dask cluster: by seeds to the byte, by ranges of rows to rounding."""

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr

from benchmarks.imported_project import FEATURES, STATISTICS, ImportedProject, rff
from dask_cluster import RealCluster
from pipeline import paths
from pipeline.extraction.executor import ClusterReduction
from pipeline.method import kernel_rows
from pipeline.method.rows import BLOCK_IMAGES
from pipeline.stage import main
from small_project import tree_digest

pytestmark = pytest.mark.slow

ADDRESS = "DASK_SCHEDULER_ADDRESS"
STAGES = (*STATISTICS, ("compare", "a-b"))
OUTPUTS = ("cache/source", "cache/target", "results/toy/problems")
TARGET = paths.target_model("a-b")


def run(*stages):
    for stage in stages:
        assert main(stage) == 0, stage


def write_features(folder, rows, **sections):
    """Write features and run everything before the statistics."""
    sizes = {"source": rows, "target": rows, "classes": 4, "per_task": 2, "width": 64}
    settings = {"rff": rff(40), "data": {"seeds": [0, 1]}} | sections
    ImportedProject(folder).write(**sizes, **settings)
    run(*FEATURES)


def digests():
    return {name: tree_digest(Path(name)) for name in OUTPUTS}


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
def reductions(monkeypatch):
    """Record the number of rows of every reduction that is handed to the cluster."""
    calls, original = [], ClusterReduction.__call__

    def counted(self, function, shared, rows, combine):
        calls.append(len(rows))
        return original(self, function, shared, rows, combine)

    monkeypatch.setattr(ClusterReduction, "__call__", counted)
    return calls


def test_whole_seeds_give_the_same_bytes(tmp_path, monkeypatch, address, reductions):
    monkeypatch.chdir(tmp_path)
    methods = ["source_only", "calibrated", "ranpac-pseudo"]
    write_features(tmp_path, 200, compare={"methods": methods})
    run(*STAGES)
    here = digests()
    forget()
    monkeypatch.setenv(ADDRESS, address)
    run(*STAGES)
    assert digests() == here
    assert reductions == []  # whole seeds were handed out, not rows


def read(path):
    group = zarr.open_group(path, mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def test_ranges_of_rows_give_the_same_statistics(tmp_path, monkeypatch, address, reductions):
    monkeypatch.chdir(tmp_path)
    write_features(tmp_path, 6 * BLOCK_IMAGES, data={"seeds": [0]})  # two tasks of three blocks
    run(*STATISTICS)
    here = {path: read(path) for path in (paths.source_model("a"), TARGET)}
    metrics = json.loads(paths.evaluation("toy", "a-b").read_text())
    forget()
    monkeypatch.setenv(ADDRESS, address)
    monkeypatch.setattr(kernel_rows, "KEPT_BYTES", 0)  # as if there were a hundred times the rows
    run(*STATISTICS)
    assert len(reductions) >= 2 * 2  # source and target, tasks
    assert max(reductions) > 2 * BLOCK_IMAGES
    for path, arrays in here.items():
        others = read(path)
        assert set(others) == set(arrays)
        for name, array in arrays.items():
            assert_same(others[name], array, f"{path}/{name}")
    assert json.loads(paths.evaluation("toy", "a-b").read_text()) == metrics


def assert_same(one, other, name):
    """Whole numbers are equal; others agree to 1e-6 of the largest.

    Features are float32 products, whose last bit depends on some processors on how many rows are mapped at once.
    """
    if other.dtype.kind in "ib":
        assert np.array_equal(one, other), name
        return
    assert np.array_equal(np.isnan(one), np.isnan(other)), name
    assert np.nanmax(np.abs(one - other)) <= 1e-6 * np.nanmax(np.abs(other)), name


@pytest.mark.long
def test_many_rows_with_a_killed_a_late_and_a_slow_worker(tmp_path, monkeypatch):
    """Rows that are really too many to be kept, in stages that are processes of their own."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    write_features(tmp_path / "project", 48_000, rff=rff(1000), data={"seeds": [0]})
    process = ImportedProject(tmp_path / "project").run
    for stage in STATISTICS:
        process(*stage)
    here = read(TARGET)
    forget()
    with RealCluster(tmp_path / "cluster") as cluster:
        killed, slow = cluster.add_worker(), cluster.add_worker()
        slow.slow_down()
        monkeypatch.setenv(ADDRESS, cluster.address)
        process(*STAGES[0])

        def disturb():
            cluster.add_worker()
            killed.kill()

        disturber = threading.Timer(4.0, disturb)
        disturber.start()
        process(*STAGES[1])
        disturber.join()
        assert killed.process.poll() is not None
        process(*STAGES[2])
    for name, array in here.items():
        assert_same(read(TARGET)[name], array, name)
