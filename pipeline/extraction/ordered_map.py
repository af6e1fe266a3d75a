"""Run a function over many items in threads: results in order, a bounded number under way."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    initializer: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order; at most 2·workers are taken beyond the awaited one.

    The first exception is raised where its result would have been, after the calls already under way have ended.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, initializer=initializer) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def worker_count(asked: int) -> int:
    """Return the number of threads: those asked for, or (0) the cores that this process may use."""
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
