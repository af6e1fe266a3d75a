"""Reduce rows on a Dask cluster: one partial result per range of rows, combined in a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from pipeline.extraction.cluster import Cluster
from pipeline.method.row_reduction import RowReduction, reduce_here, row_ranges

PER_THREAD = 2  # ranges: a slow worker takes one where the others take three


@dataclass(frozen=True)
class ClusterReduction:
    """A `RowReduction` whose ranges of rows are handed out; only the total comes back.

    Workers read the rows from the stores themselves. What all ranges share is sent once, as a task:
    the scheduler can have it made again if the worker that holds it is lost.
    """

    cluster: Cluster
    on_worker: RowReduction = reduce_here  # how a worker reduces its range: itself, or on its GPU

    def __call__(
        self, function: Callable[[Any, Any], Any], shared: Any, rows: Any, combine: Callable[[Any, Any], Any]
    ) -> Any:
        """Return ``function(shared, part)`` of ranges of ``rows``, combined; see `RowReduction`."""
        ranges = row_ranges(len(rows), max(1, PER_THREAD * self.cluster.threads()))
        if not ranges:
            return function(shared, rows)
        submit = self.cluster.submit
        sent = submit(_itself, shared)
        level = [submit(with_one_thread, self.on_worker, function, sent, rows.take(index), combine) for index in ranges]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            odd = level[len(level) // 2 * 2 :]
            level = [submit(combine, left, right) for left, right in pairs] + odd
        return self.cluster.result(level[0])


def _itself(shared: Any) -> Any:
    return shared


def with_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a process whose BLAS uses one thread from now on.

    A cluster's parallelism is over tasks, and bits must not depend on cores. The limit is not taken
    back, because other tasks may be at work.
    """
    threadpool_limits(limits=1)
    return function(*args)
