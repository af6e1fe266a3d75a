import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from pipeline.execution.seeds import SIDE_BY_SIDE, for_each_seed


def test_results_come_in_the_order_of_the_seeds():
    assert for_each_seed(lambda i: i * i, 7, D=10, workers=3) == [i * i for i in range(7)]


@pytest.mark.parametrize(("D", "most"), [(SIDE_BY_SIDE, 2), (SIDE_BY_SIDE + 1, 1)])
def test_large_statistics_are_made_one_seed_at_a_time(D, most):
    under_way, seen, lock = 0, [], threading.Lock()

    def work(index):
        nonlocal under_way
        with lock:
            under_way += 1
            seen.append(under_way)
        time.sleep(0.02)
        with lock:
            under_way -= 1

    for_each_seed(work, 6, D=D, workers=2)
    assert max(seen) == most


def blas_threads(_index):
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_each_seed_has_one_blas_thread():
    np.ones((2, 2)) @ np.ones((2, 2))
    counts = for_each_seed(blas_threads, 2, D=10)
    assert counts[0]
    assert {n for each in counts for n in each} == {1}
