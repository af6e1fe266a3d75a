"""The statistics stages on a real Dask cluster: same bytes if split by seeds, same to rounding if split by rows."""

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
    """Write features and run all stages before the statistics."""
    sizes = {"source": rows, "target": rows, "classes": 4, "per_task": 2, "width": 64}
    settings = {"rff": rff(40), "data": {"seeds": [0, 1]}} | sections
    ImportedProject(folder).write(**sizes, **settings)
    run(*FEATURES)


def output_digests():
    return {name: tree_digest(Path(name)) for name in OUTPUTS}


def delete_outputs():
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
    """Record the number of rows of each reduction that runs on the cluster."""
    calls, original = [], ClusterReduction.__call__

    def record(self, function, shared, rows, combine):
        calls.append(len(rows))
        return original(self, function, shared, rows, combine)

    monkeypatch.setattr(ClusterReduction, "__call__", record)
    return calls


def test_splitting_by_seeds_gives_the_same_bytes(tmp_path, monkeypatch, address, reductions):
    monkeypatch.chdir(tmp_path)
    methods = ["source_only", "calibrated", "ranpac-pseudo"]
    write_features(tmp_path, 200, compare={"methods": methods})
    run(*STAGES)
    expected = output_digests()
    delete_outputs()
    monkeypatch.setenv(ADDRESS, address)
    run(*STAGES)
    assert output_digests() == expected
    assert reductions == []  # split by seeds, not by rows


def read_arrays(path):
    group = zarr.open_group(path, mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def test_splitting_by_rows_gives_the_same_statistics(tmp_path, monkeypatch, address, reductions):
    monkeypatch.chdir(tmp_path)
    write_features(tmp_path, 6 * BLOCK_IMAGES, data={"seeds": [0]})  # two tasks of three blocks
    run(*STATISTICS)
    expected = {path: read_arrays(path) for path in (paths.source_model("a"), TARGET)}
    metrics = json.loads(paths.evaluation("toy", "a-b").read_text())
    delete_outputs()
    monkeypatch.setenv(ADDRESS, address)
    monkeypatch.setattr(kernel_rows, "KEPT_BYTES", 0)  # keep no rows, as if there were too many
    run(*STATISTICS)
    assert len(reductions) >= 2 * 2  # two tasks of source and target
    assert max(reductions) > 2 * BLOCK_IMAGES
    for path, arrays in expected.items():
        computed = read_arrays(path)
        assert set(computed) == set(arrays)
        for name, array in arrays.items():
            assert_close(computed[name], array, f"{path}/{name}")
    assert json.loads(paths.evaluation("toy", "a-b").read_text()) == metrics


def assert_close(computed, expected, name):
    """Check that integers are equal and floats agree to 1e-6 of the largest.

    Features are float32 products. On some processors, their last bit depends on how many rows are mapped at once.
    """
    if expected.dtype.kind in "ib":
        assert np.array_equal(computed, expected), name
        return
    assert np.array_equal(np.isnan(computed), np.isnan(expected)), name
    assert np.nanmax(np.abs(computed - expected)) <= 1e-6 * np.nanmax(np.abs(expected)), name


@pytest.mark.long
def test_killed_late_and_slow_workers_do_not_change_statistics(tmp_path, monkeypatch):
    """Use more rows than are kept in memory, and run each stage in its own process."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    write_features(tmp_path / "project", 48_000, rff=rff(1000), data={"seeds": [0]})
    run_stage = ImportedProject(tmp_path / "project").run
    for stage in STATISTICS:
        run_stage(*stage)
    expected = read_arrays(TARGET)
    delete_outputs()
    with RealCluster(tmp_path / "cluster") as cluster:
        killed, slow = cluster.add_worker(), cluster.add_worker()
        slow.slow_down()
        monkeypatch.setenv(ADDRESS, cluster.address)
        run_stage(*STAGES[0])

        def disturb():
            cluster.add_worker()
            killed.kill()

        disturber = threading.Timer(4.0, disturb)
        disturber.start()
        run_stage(*STAGES[1])
        disturber.join()
        assert killed.process.poll() is not None
        run_stage(*STAGES[2])
    for name, array in expected.items():
        assert_close(read_arrays(TARGET)[name], array, name)
