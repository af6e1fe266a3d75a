"""Run a function over many items in threads: results in order, a bounded number under way."""

from __future__ import annotations

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
    ahead: int,
    initializer: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order, with at most ``ahead`` items beyond the one awaited.

    Memory is bounded by ``ahead`` results however many items there are. The first exception is raised where its
    result would have been, after the calls already under way have ended.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, initializer=initializer) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
