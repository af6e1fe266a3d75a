"""Where a stage's statistics are computed: this process, its GPU, or a Dask cluster.

Seeds are independent: they run side by side in threads, with one BLAS thread each. OpenBLAS's products and factors have
other last bits with every number of threads, and bytes must not depend on the number of cores. NumPy lets go of
Python's global lock in them (see `method/cholesky.py`). Where the matrices of all seeds together would take more than
`MEMORY` per thread, fewer run at once, and the other cores are idle. Compared methods and values of a sweep are
independent too: no core is idle while the last of five seeds runs.
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
from pipeline.method.rows import RowReduction, reduce_here, row_ranges
from pipeline.method.task_statistics import sum_part

Result = TypeVar("Result")
Opened = TypeVar("Opened")
Item = TypeVar("Item")

MEMORY = 3 * 2**29  # per thread, for the matrices of the seeds that are under way: enough for float64 at D = 6000
MATRICES_PER_SEED = 5  # of width × width float64 that a seed has at once, at most
PER_THREAD = 2  # ranges of rows on a cluster: several, so that fast workers can do more


@dataclass(frozen=True)
class Executor:
    """Runs the seeds of a stage; see `executor`."""

    cluster: Cluster | None = None
    reduce_rows: RowReduction = reduce_here  # how a process reduces rows: itself, or on its GPU
    workers: int = 0  # threads of this process; 0: one per core

    @property
    def lazy(self) -> bool:
        """Whether rows should stay in their stores, for the workers of a cluster to read."""
        return self.cluster is not None

    def for_each_seed(
        self, function: Callable[[int, RowReduction], Result], seeds: int, *, D: int, images: int, views: int
    ) -> list[Result]:
        """Return ``function(index, reduce_rows)`` of every seed, in order; statistics have ``D`` columns.

        On a cluster, a small problem's seeds are handed out whole: a worker computes what this process would, to the
        bit. A large problem's seeds (``images``, of a task, have more features than are kept in memory) run here, as
        many at once as memory allows, and ranges of their rows are handed out.
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
        """Return ``run(index, open_seed(index), item)`` of every item (inner) of every seed (outer).

        On a cluster whole seeds are handed out: all their rows are in memory. Here as many seeds are under way as there
        are threads, so that threads rarely wait for what the items of a seed share (`shared` must bear several threads
        all the same). A seed is in memory from its first item to its last, so that no more are under way than memory
        holds.
        """
        if self.cluster is not None:

            def run_seed(index: int, _: RowReduction) -> list[Result]:
                seed = open_seed(index)
                return [run(index, seed, item) for item in items]

            return self.for_each_seed(run_seed, seeds, images=0, views=0, D=D)
        opened, changed = dict[int, Opened](), Condition()
        left = [len(items)] * seeds
        together = seeds_at_once(D, self.workers)
        jobs = [
            (index, position)
            for first in range(0, seeds, together)
            for position in range(len(items))
            for index in range(first, min(first + together, seeds))
        ]

        def run_one(job: int) -> Result:
            index, position = jobs[job]
            with changed:
                # items are taken in order, so those of an open seed are done or under way: it will make room
                changed.wait_for(lambda: index in opened or len(opened) < together)
                if index not in opened:
                    opened[index] = open_seed(index)
                seed = opened[index]
            try:
                return run(index, seed, items[position])
            finally:
                del seed
                with changed:
                    left[index] -= 1
                    if not left[index]:
                        del opened[index]
                        changed.notify_all()

        results = dict(zip(jobs, in_threads(run_one, len(jobs), D=D, workers=self.workers), strict=True))
        return [[results[index, position] for position in range(len(items))] for index in range(seeds)]


@contextmanager
def executor(
    scratch: Path, *, workers: int = 0, statistics: str = "cpu", paths: Sequence[Path] = ()
) -> Iterator[Executor]:
    """Yield who computes the statistics, as the environment and `runtime` of params.yaml say.

    A GPU that is absent is refused here. ``scratch`` and ``paths`` are as in `cluster.connected`.
    """
    reduce_rows: RowReduction = reduce_here
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
    """Sum float32 statistics on a device of torch and do everything else here, see `RowReduction`."""
    from pipeline.encoders.device import choose_device  # torch is imported only for a GPU
    from pipeline.extraction.device_statistics import statistics_on

    chosen = str(choose_device(device))  # an absent one is a `ModelError`
    if function is sum_part and common.arithmetic == "float32":
        return statistics_on(chosen, common.basis, rows, common.C)
    return reduce_here(function, common, rows, combine)


def in_threads(function: Callable[[int], Result], count: int, *, D: int, workers: int = 0) -> list[Result]:
    """Return ``function(index)`` for each index below ``count``, in order, computed by threads of this process."""
    keep_freed_memory()
    at_once = min(count, seeds_at_once(D, workers))
    with threadpool_limits(limits=1):
        return list(ordered_map(function, range(count), workers=at_once))


def seeds_at_once(D: int, workers: int) -> int:
    """Return how many seeds may be under way: as many as there are threads, or as their matrices fit into memory."""
    threads = worker_count(workers)
    return max(1, min(threads, threads * MEMORY // (MATRICES_PER_SEED * 8 * D * D)))


def keep_freed_memory() -> None:
    """Have the C library keep the memory of freed matrices for the next ones.

    glibc returns matrices of some MB to the system and fetches them anew, page by page: a tenth of the processor time
    of `compare`, in which other threads wait. It holds for the whole process until its end: only stages, which are
    processes of their own, run seeds side by side. The Python API and `referee predict` do not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # another C library
        return
    trim_threshold, top_pad, mmap_threshold, arena_max = -1, -2, -3, -8  # of malloc.h
    for parameter, value in (
        (mmap_threshold, 2**25),  # the largest that glibc accepts
        (trim_threshold, 2**31 - 1),
        (top_pad, 2**26),
        (arena_max, 1),  # the arenas of threads are too small for matrices
    ):
        mallopt(parameter, value)


@dataclass(frozen=True)
class ClusterReduction:
    """A `RowReduction` on a Dask cluster: ranges of rows are handed out; only the total comes back.

    Workers read the rows from the stores themselves. What is common to all ranges is sent once, as a task:
    the scheduler can have it made again if the worker that holds it is lost.
    """

    cluster: Cluster
    on_worker: RowReduction = reduce_here  # how a worker reduces its range: itself, or on its GPU

    def __call__(
        self, function: Callable[[Any, Any], Any], common: Any, rows: Any, combine: Callable[[Any, Any], Any]
    ) -> Any:
        """Return ``function(common, part)`` of ranges of ``rows``, combined; see `RowReduction`."""
        ranges = row_ranges(len(rows), max(1, PER_THREAD * self.cluster.threads()))
        if not ranges:
            return function(common, rows)
        submit = self.cluster.submit
        sent = submit(_itself, common)
        level = [submit(with_one_thread, self.on_worker, function, sent, rows.take(index), combine) for index in ranges]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            odd = level[len(level) // 2 * 2 :]
            level = [submit(combine, left, right) for left, right in pairs] + odd
        return self.cluster.result(level[0])


def _itself(common: Any) -> Any:
    return common


def with_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a process whose BLAS uses one thread from now on.

    A cluster's parallelism is over tasks, and bits must not depend on cores. The limit is not taken
    back, because other tasks may be at work.
    """
    threadpool_limits(limits=1)
    return function(*args)
