"""Work on a real scheduler with real worker processes, some of which are killed; all of it once, in order."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dask_cluster import RealCluster, wait_until
from pipeline.errors import ClusterError, InputError
from pipeline.execution import cluster as cluster_module
from pipeline.execution.cluster import ADDRESS, cluster_address, connected, work_place
from pipeline.execution.cluster_ranges import ClusterRanges
from pipeline.execution.software import CODE, code_digest, difference
from pipeline.method.moments import LabelledTask, task_statistics
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.row_ranges import IMAGES
from pipeline.method.task_features import TaskFeatures


@pytest.mark.parametrize("value", [None, "", "  "])
def test_without_an_address_work_runs_here(monkeypatch, tmp_path, value):
    monkeypatch.delenv(ADDRESS, raising=False)
    if value is not None:
        monkeypatch.setenv(ADDRESS, value)
    assert cluster_address() is None
    with work_place(tmp_path) as place:
        assert place is None
    assert not list(tmp_path.iterdir())


def test_an_address_without_dask_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv(ADDRESS, "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "dask", None)
    told = r"dask is not installed; pip install .*\[cluster\]"
    with pytest.raises(ClusterError, match=told), work_place(tmp_path):
        pass


def test_what_differs_is_named_with_both_versions():
    here = {"Python": "3.11.7", "numpy": "2.4.6", CODE: "a"}
    assert difference(here, dict(here)) is None
    assert "has numpy 2.0.0, this process 2.4.6" in difference(here, {**here, "numpy": "2.0.0"})
    assert "has numpy absent" in difference(here, {"Python": "3.11.7", CODE: "a"})
    assert "other code" in difference(here, {**here, CODE: "b"})


def test_code_is_known_by_names_and_contents_wherever_it_lies(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "part").mkdir(parents=True)
        (tmp_path / name / "part" / "a.py").write_text("x = 1\n")
        (tmp_path / name / "part" / f"{name}.txt").write_text("no code")
    before = code_digest(tmp_path / "one")
    assert before == code_digest(tmp_path / "two")
    (tmp_path / "one" / "part" / "a.py").write_text("x = 2\n")
    assert before != code_digest(tmp_path / "one")
    (tmp_path / "two" / "part" / "a.py").rename(tmp_path / "two" / "part" / "b.py")
    assert before != code_digest(tmp_path / "two")


@pytest.fixture
def real(tmp_path):
    with RealCluster(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
def scratch(tmp_path):
    return tmp_path / "project" / ".referee" / "scratch"


@pytest.mark.slow
def test_a_worker_killed_between_pieces_costs_none_of_them(real, scratch, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "LOOK_SECONDS", 0.2)
    doomed, _ = real.add_worker(), real.add_worker()
    marks = tmp_path / "marks"
    marks.mkdir()

    def work(number):  # by value on its way: workers cannot import this file
        import os

        Path(marks, f"{number}-{os.getpid()}").touch()
        time.sleep(0.15)
        return number * number

    def marked_by(pid):
        return [mark for mark in marks.iterdir() if mark.name.endswith(f"-{pid}")]

    with connected(real.address, scratch) as cluster:
        done = {}
        for item, result in cluster.collect(work, range(30)):
            assert item not in done
            done[item] = result
            if len(done) == 4:  # each has several more under way
                wait_until(lambda: marked_by(doomed.process.pid), "the doomed worker's first piece")
                doomed.kill()
                real.add_worker()  # late
    assert done == {number: number * number for number in range(30)}
    workers = {mark.name.partition("-")[2] for mark in marks.iterdir()}
    assert len(workers) == 3  # the late one worked too
    assert not list(scratch.iterdir())


@pytest.mark.slow
def test_errors_and_sums_come_back_as_they_are(real, scratch):
    real.add_worker()
    real.add_worker()

    def refuse(number):
        if number == 2:
            raise InputError("photo.jpg: cannot be read")
        return number

    with connected(real.address, scratch) as cluster:
        with pytest.raises(InputError, match=r"photo.jpg: cannot be read \(on worker tcp://"):
            cluster.each(refuse, range(4))
        assert cluster.each(lambda number: -number, range(9)) == [-n for n in range(9)]
        ranges = ClusterRanges(cluster)
        for count in (1, 2, 7):
            total = ranges.summed(lambda shared, part: shared + part, 100, list(range(count)))
            assert total == 100 * count + sum(range(count))
        assert ranges.listed(lambda shared, part: shared * part, 2, [1, 2, 3]) == [2, 4, 6]
        same_statistics(ranges)


def same_statistics(elsewhere):
    """The statistics of three blocks of rows, made on the workers, are those made here."""
    rng = np.random.default_rng(0)
    n = 3 * IMAGES
    x = {"original": rng.normal(size=(n, 5)).astype(np.float32)}
    basis = draw_basis(5, 30, 1.0, "bandwidth", 0)
    labels, weights = rng.integers(0, 3, n), rng.uniform(0.1, 1, n)

    def statistics(where):
        features = TaskFeatures(basis, x, elsewhere=where, keep=False)
        kept = np.ones(n, dtype=bool)
        task = LabelledTask(features, 0, ["original"], labels, weights, kept, np.arange(3))
        return task_statistics(task, "float32")

    here, there = statistics(None), statistics(elsewhere)
    for name in ("count", "weight", "squared_weight", "sums", "scatter"):
        mine, theirs = np.tril(getattr(here, name)), np.tril(getattr(there, name))
        assert np.abs(theirs - mine).max() <= 1e-12 * np.abs(mine).max(), name
