"""Run a stage's computations in this process, on its GPU or on a Dask cluster.

Seeds are independent, so they run in parallel threads with one BLAS thread each. The last bits of OpenBLAS's products
and factors depend on its number of threads, and bytes must not depend on the number of cores. NumPy releases Python's
global lock in them (see `method/cholesky.py`). If the matrices of all seeds would take more than `MEMORY` per thread,
fewer seeds run at once and the other cores are idle. Compared methods and values of a sweep are independent too, so
that no core is idle while the last of five seeds runs.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from pipeline.extraction.cluster import Cluster, cluster_from_environment
from pipeline.extraction.ordered_map import ordered_map, worker_count
from pipeline.method.kernel_rows import kept_in_memory
from pipeline.method.rows import RowReduction, reduce_locally, row_ranges
from pipeline.method.task_statistics import sum_part

Result = TypeVar("Result")
Opened = TypeVar("Opened")
Item = TypeVar("Item")

MEMORY = 3 * 2**29  # per thread, for the matrices of the running seeds; enough for float64 at D = 6000
MATRICES_PER_SEED = 5  # maximum number of width × width float64 matrices that a seed has at once
RANGES_PER_THREAD = 2  # ranges of rows on a cluster; several, so that fast workers can process more


@dataclass(frozen=True)
class Executor:
    """Runs the seeds of a stage; created by `executor`."""

    cluster: Cluster | None = None
    reduce_rows: RowReduction = reduce_locally  # how a process reduces rows: on its CPU or its GPU
    workers: int = 0  # threads of this process; 0: one per core

    @property
    def lazy(self) -> bool:
        """Whether rows should stay in their stores, where the workers of a cluster read them."""
        return self.cluster is not None

    def for_each_seed(
        self, function: Callable[[int, RowReduction], Result], seeds: int, *, D: int, images: int, views: int
    ) -> list[Result]:
        """Return ``function(index, reduce_rows)`` for every seed, in order; statistics have ``D`` columns.

        On a cluster, each seed of a small problem is a task of its own, with the same result as here, to the bit. A
        problem is large if the features of a task's ``images`` are not kept in memory. Its seeds run here, as many at
        once as memory allows, and the cluster computes ranges of their rows.
        """
        reduce_rows = self.reduce_rows
        if self.cluster is not None and kept_in_memory(images, views, D):
            return self.cluster.map(lambda index: with_one_thread(function, index, reduce_rows), range(seeds))
        if self.cluster is not None:
            reduce_rows = ClusterReduction(self.cluster, reduce_rows)
        return in_threads(lambda index: function(index, reduce_rows), seeds, D=D, workers=self.workers)

    def for_each_item(
        self,
        open_seed: Callable[[int], Opened],
        run: Callable[[int, Opened, Item], Result],
        seeds: int,
        items: Sequence[Item],
        *,
        D: int,
    ) -> list[list[Result]]:
        """Return ``run(index, open_seed(index), item)`` for every seed (outer list) and item (inner list).

        On a cluster, each seed is one task, because all its rows fit into memory. Here as many seeds are open as there
        are threads, so that threads rarely wait for values shared by the items of a seed (`shared` must be thread-safe
        all the same). A seed stays in memory from its first item to its last; no more seeds are open than fit.
        """
        if self.cluster is not None:

            def run_seed(index: int, _: RowReduction) -> list[Result]:
                seed = open_seed(index)
                return [run(index, seed, item) for item in items]

            return self.for_each_seed(run_seed, seeds, images=0, views=0, D=D)
        open_seeds, changed = dict[int, Opened](), Condition()
        remaining = [len(items)] * seeds
        at_once = seeds_at_once(D, self.workers)
        jobs = [
            (index, position)
            for start in range(0, seeds, at_once)
            for position in range(len(items))
            for index in range(start, min(start + at_once, seeds))
        ]

        def run_job(job: int) -> Result:
            index, position = jobs[job]
            with changed:
                # jobs start in order, so all those of an open seed are done or running, and it will be closed
                changed.wait_for(lambda: index in open_seeds or len(open_seeds) < at_once)
                if index not in open_seeds:
                    open_seeds[index] = open_seed(index)
                seed = open_seeds[index]
            try:
                return run(index, seed, items[position])
            finally:
                del seed
                with changed:
                    remaining[index] -= 1
                    if not remaining[index]:
                        del open_seeds[index]
                        changed.notify_all()

        results = dict(zip(jobs, in_threads(run_job, len(jobs), D=D, workers=self.workers), strict=True))
        return [[results[index, position] for position in range(len(items))] for index in range(seeds)]


@contextmanager
def executor(
    scratch: Path, *, workers: int = 0, statistics: str = "cpu", paths: Sequence[Path] = ()
) -> Iterator[Executor]:
    """Yield the executor selected by the environment and by `runtime` of params.yaml.

    Raise ModelError if the GPU is absent. ``scratch`` and ``paths`` are as in `cluster.connected`.
    """
    reduce_rows: RowReduction = reduce_locally
    if statistics != "cpu":
        reduce_rows = partial(reduce_on_device, statistics)
    with cluster_from_environment(scratch, paths) as cluster:
        if statistics != "cpu" and cluster is None:  # on a cluster the workers must have the GPU
            from pipeline.encoders.device import choose_device

            choose_device(statistics)
        yield Executor(cluster, reduce_rows, workers)


def reduce_on_device(
    device: str, function: Callable[[Any, Any], Any], common: Any, rows: Any, combine: Callable[[Any, Any], Any]
) -> Any:
    """Sum float32 statistics on a torch device and do every other reduction on the CPU; see `RowReduction`."""
    from pipeline.encoders.device import choose_device  # not at the top: torch is imported only for a GPU
    from pipeline.extraction.device_statistics import statistics_on

    chosen = str(choose_device(device))
    if function is sum_part and common.arithmetic == "float32":
        return statistics_on(chosen, common.basis, rows, common.C)
    return reduce_locally(function, common, rows, combine)


def in_threads(function: Callable[[int], Result], count: int, *, D: int, workers: int = 0) -> list[Result]:
    """Return ``function(index)`` for each index below ``count``, in order, computed in threads of this process."""
    keep_freed_memory()
    at_once = min(count, seeds_at_once(D, workers))
    with threadpool_limits(limits=1):
        return list(ordered_map(function, range(count), workers=at_once))


def seeds_at_once(D: int, workers: int) -> int:
    """Return how many seeds may run at the same time: one per thread, if their matrices fit into memory."""
    threads = worker_count(workers)
    return max(1, min(threads, threads * MEMORY // (MATRICES_PER_SEED * 8 * D * D)))


def keep_freed_memory() -> None:
    """Make the C library keep the memory of freed matrices for the next ones.

    glibc returns matrices of some MB to the system and requests them again page by page, which takes a tenth of the
    processor time of `compare` and blocks other threads. The setting holds until the process ends. Only stages, which
    are separate processes, run seeds in parallel; the Python API and `referee predict` do not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # not glibc
        return
    trim_threshold, top_pad, mmap_threshold, arena_max = -1, -2, -3, -8  # from malloc.h
    for parameter, value in (
        (mmap_threshold, 2**25),  # the largest that glibc accepts
        (trim_threshold, 2**31 - 1),
        (top_pad, 2**26),
        (arena_max, 1),  # the arenas of threads are too small for matrices
    ):
        mallopt(parameter, value)


@dataclass(frozen=True)
class ClusterReduction:
    """A `RowReduction` on a Dask cluster: workers reduce ranges of rows, and only the total comes back.

    Workers read the rows from the stores. The argument common to all ranges is sent once, as a task, so that the
    scheduler can recompute it if its worker is lost.
    """

    cluster: Cluster
    on_worker: RowReduction = reduce_locally  # how a worker reduces its range: on its CPU or its GPU

    def __call__(
        self, function: Callable[[Any, Any], Any], common: Any, rows: Any, combine: Callable[[Any, Any], Any]
    ) -> Any:
        """Return the combined ``function(common, part)`` of ranges of ``rows``; see `RowReduction`."""
        ranges = row_ranges(len(rows), max(1, RANGES_PER_THREAD * self.cluster.threads()))
        if not ranges:
            return function(common, rows)
        submit = self.cluster.submit
        shared = submit(_identity, common)
        level = [
            submit(with_one_thread, self.on_worker, function, shared, rows.take(index), combine) for index in ranges
        ]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            odd = level[len(level) // 2 * 2 :]
            level = [submit(combine, left, right) for left, right in pairs] + odd
        return self.cluster.result(level[0])


def _identity(value: Any) -> Any:
    return value


def with_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Limit BLAS to one thread in this process, then call a function.

    A cluster parallelises over tasks, and bits must not depend on the number of cores. The limit is not removed
    afterwards, because other tasks may be running.
    """
    threadpool_limits(limits=1)
    return function(*args)
