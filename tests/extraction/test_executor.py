"""Running the seeds of a stage in threads, on a cluster or on a GPU."""

import time
import weakref

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from pipeline.errors import InputError, ModelError
from pipeline.extraction.cluster import ADDRESS
from pipeline.extraction.executor import ClusterReduction, Executor, executor, in_threads, reduce_on_device
from pipeline.extraction.ordered_map import ordered_map
from pipeline.method.rows import reduce_locally

SMALL = {"D": 10, "images": 100, "views": 1}
LARGE = {"D": 10_000, "images": 10**7, "views": 3}


class RecordingCluster:
    """Runs functions in this process and counts the calls of `map`."""

    mapped = 0

    def map(self, function, items):
        self.mapped += 1
        return [function(item) for item in items]


@pytest.mark.parametrize("D", [10, 10_000])  # with 10,000 memory holds one seed at a time
def test_each_seed_has_one_blas_thread(D):
    np.ones((2, 2)) @ np.ones((2, 2))

    def blas_threads(_index):
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    counts = in_threads(blas_threads, 2, D=D, workers=2)
    assert counts[0]
    assert {n for seed_counts in counts for n in seed_counts} == {1}


@pytest.mark.parametrize(("D", "workers", "max_open"), [(10, 2, 2), (6000, 2, 2), (10_000, 2, 1), (10, 4, 4)])
def test_all_items_are_run_while_only_as_many_seeds_are_open_as_memory_holds(D, workers, max_open):
    opened, open_at_once = [], []

    class Opened:
        def __init__(self, number):
            self.number = number
            opened.append(weakref.ref(self))
            open_at_once.append(sum(seed() is not None for seed in opened))

    def run(index, seed, item):
        time.sleep(0.2 if index % 4 and item == "b" else 0.01)  # so that seeds end at different times
        return index, seed.number, item

    results = Executor(workers=workers).for_each_item(Opened, run, 8, "ab", D=D)
    assert results == [[(index, index, item) for item in "ab"] for index in range(8)]
    assert len(opened) == 8
    assert max(open_at_once) == max_open


def test_a_failing_item_ends_the_run_and_leaves_no_thread_waiting():
    def run(index, seed, item):
        time.sleep(0.01)
        if (index, item) == (1, "a"):
            raise InputError("no")
        return item

    with pytest.raises(InputError, match="no"):
        Executor(workers=2).for_each_item(lambda index: index, run, 8, "ab", D=10_000)


@pytest.mark.parametrize("address", [{}, {ADDRESS: ""}, {ADDRESS: "  "}])
def test_without_an_address_this_process_reduces(tmp_path, monkeypatch, address):
    monkeypatch.delenv(ADDRESS, raising=False)
    for name, value in address.items():
        monkeypatch.setenv(name, value)
    with executor(tmp_path) as local:
        results = local.for_each_seed(lambda index, reduce_rows: (index, reduce_rows), 2, **LARGE)
    assert results == [(0, reduce_locally), (1, reduce_locally)]
    assert not list(tmp_path.iterdir())


def test_a_cluster_gets_whole_seeds_of_a_small_problem_and_row_ranges_of_a_large_one():
    cluster = RecordingCluster()
    on_cluster = Executor(cluster)

    def function(index, reduce_rows):
        return index, type(reduce_rows), reduce_rows is reduce_locally

    small = on_cluster.for_each_seed(function, 2, **SMALL)
    assert cluster.mapped == 1
    assert all(is_here for _, _, is_here in small)
    large = on_cluster.for_each_seed(function, 2, **LARGE)
    assert cluster.mapped == 1
    assert [kind for _, kind, _ in large] == [ClusterReduction] * 2


def test_an_absent_gpu_is_an_error_before_any_work(tmp_path, monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    with pytest.raises(ModelError, match="'cuda:7'"), executor(tmp_path, statistics="cuda:7"):
        pass
    with pytest.raises(ModelError, match="'cuda:7'"):  # as on a worker
        reduce_on_device("cuda:7", len, None, [], None)
    # functions other than statistics are reduced on the CPU
    assert reduce_on_device("cpu", lambda shared, rows: shared + sum(rows), 1, [2, 3], None) == 6


def test_ordered_map_reads_only_a_few_items_ahead_of_the_results():
    consumed = []

    def items():
        for i in range(50):
            consumed.append(i)
            yield i

    results = ordered_map(lambda i: i, items(), workers=2)
    for expected in range(10):
        assert next(results) == expected
        assert len(consumed) <= expected + 6
    results.close()
