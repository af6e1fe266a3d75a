"""Map a function over items in threads, with ordered results and a bounded number of pending items."""

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
    """Yield ``function(item)`` for each item, in order; read at most 2·workers items ahead of the awaited one.

    The first exception is raised in place of its result, after the calls that are already running have ended.
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


def worker_count(requested: int) -> int:
    """Return the requested number of threads or, for 0, the number of cores that this process may use."""
    if requested:
        return requested
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
