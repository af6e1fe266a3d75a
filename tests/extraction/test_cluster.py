"""Work on a real scheduler with real worker processes, some of which are killed."""

import operator
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dask_cluster import RealCluster, wait_until
from pipeline.errors import ClusterError, InputError
from pipeline.extraction import cluster as cluster_module
from pipeline.extraction.cluster import ADDRESS, cluster_from_environment, connected
from pipeline.extraction.executor import ClusterReduction
from pipeline.extraction.worker_checks import CODE, code_digest, difference
from pipeline.method.rows import BLOCK_IMAGES, concatenate, reduce_here


@pytest.mark.parametrize("value", [None, "", "  "])
def test_without_an_address_work_runs_here(monkeypatch, tmp_path, value):
    monkeypatch.delenv(ADDRESS, raising=False)
    if value is not None:
        monkeypatch.setenv(ADDRESS, value)
    with cluster_from_environment(tmp_path) as cluster:
        assert cluster is None
    assert not list(tmp_path.iterdir())


def test_an_address_without_dask_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv(ADDRESS, "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "dask", None)
    message = r"dask is not installed; pip install .*\[cluster\]"
    with pytest.raises(ClusterError, match=message), cluster_from_environment(tmp_path):
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
    with RealCluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def scratch(tmp_path):
    return tmp_path / "project" / ".referee" / "scratch"


@pytest.mark.slow
def test_a_worker_killed_between_pieces_costs_none_of_them(real, scratch, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "COUNT_SECONDS", 0.2)
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
def test_work_that_kills_its_workers_is_one_line(scratch, tmp_path):
    patience = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with RealCluster(tmp_path / "cluster", **patience) as real:
        real.add_worker()

        def end(_item):
            import os

            os._exit(1)

        message = "1 workers died at the same piece of work, .*look into their logs"
        with connected(real.address, scratch) as cluster, pytest.raises(ClusterError, match=message):
            cluster.map(end, range(1))


@pytest.mark.slow
def test_errors_and_reductions_come_back_as_they_are(real, scratch):
    real.add_worker()
    real.add_worker()

    def refuse(number):
        if number == 2:
            raise InputError("photo.jpg: cannot be read")
        return number

    with connected(real.address, scratch) as cluster:
        with pytest.raises(InputError, match=r"photo.jpg: cannot be read \(on worker tcp://"):
            cluster.map(refuse, range(4))
        assert cluster.map(lambda number: -number, range(9)) == [-n for n in range(9)]
        same_results(ClusterReduction(cluster))


class Numbers:
    """Rows that can be split, of plain numbers."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def take(self, index):
        return type(self)(self.values[index])


def same_results(reduce_rows):
    """Sums and concatenations of several blocks of rows on the workers are those of this process."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[Numbers.__module__])  # workers lack this file
    for n in (0, 1, BLOCK_IMAGES + 1, 7 * BLOCK_IMAGES):
        rows = Numbers(np.arange(float(n)))
        for function, combine in (
            (lambda shared, part: shared + part.values.sum(), operator.add),
            (lambda shared, part: shared + part.values[:, None], concatenate),
        ):
            arguments = (function, 0.0, rows, combine)
            assert np.array_equal(reduce_rows(*arguments), reduce_here(*arguments))
