"""Run the seeds of a stage side by side, each with one BLAS thread; large statistics one after another.

Seeds are independent, and at the sizes of this method one thread per seed beats all threads on one seed: NumPy's and
SciPy's BLAS keep a pool of threads each, which wait for one another (measured for `adapt` at D = 1000 on 2 cores, five
seeds: 18.5 s with threaded BLAS, 10.3 s with one thread in all, 8.8 s with one thread per seed). It also makes the
bytes independent of the number of cores. Large statistics (four D×D matrices in float64 at once) are made one seed at
a time with all threads, so that memory does not grow with the cores: products and factorisations then take long enough
for the threads to pay.

On a cluster whole seeds are handed out, each with one thread, unless a stage hands out ranges of its rows: then the
seeds run here, and what they wait for is done there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from threadpoolctl import threadpool_limits

from pipeline.execution.cluster import Cluster
from pipeline.execution.extraction import worker_count
from pipeline.execution.ordered_map import ordered_map
from pipeline.execution.single_thread import with_one_thread

Result = TypeVar("Result")

SIDE_BY_SIDE = 2000  # the largest D at which several seeds are under way at once


def for_each_seed(
    function: Callable[[int], Result],
    seeds: int,
    *,
    D: int,
    workers: int = 0,
    cluster: Cluster | None = None,
) -> list[Result]:
    """Return ``function(index)`` for each of so many ``seeds``, in order; on a ``cluster`` if one is given."""
    if cluster is not None:
        return cluster.each(partial(with_one_thread, function), range(seeds))
    cores = worker_count(workers)
    at_once = min(cores, seeds) if D <= SIDE_BY_SIDE else 1
    with threadpool_limits(limits=1 if D <= SIDE_BY_SIDE else cores):
        return list(ordered_map(function, range(seeds), workers=at_once, ahead=at_once))
