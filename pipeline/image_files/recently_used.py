"""What was read lately from large files, kept for the threads that ask next; each thing is read once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentlyUsed(Generic[Key, Value]):
    """Values by key, made on demand; of those in use, a thread waits for one that another thread makes.

    Parameters
    ----------
    make : callable
        Makes the value of a key.
    size : callable
        The size of a value; the least recently used values go when all together exceed ``capacity``.
    capacity : int

    Examples
    --------
    >>> made = []
    >>> squares = RecentlyUsed(lambda n: made.append(n) or n * n, size=lambda _: 1, capacity=2)
    >>> [squares[n] for n in (2, 3, 2, 4, 2, 3)], made
    ([4, 9, 4, 16, 4, 9], [2, 3, 4, 3])
    """

    def __init__(
        self, make: Callable[[Key], Value], *, size: Callable[[Value], int], capacity: int
    ) -> None:
        self._make, self._size, self._capacity = make, size, capacity
        self._kept: OrderedDict[Key, Future[Value]] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._lock = threading.Lock()

    def __getitem__(self, key: Key) -> Value:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            else:
                own = self._kept[key] = Future()
        if kept is not None:
            return kept.result()
        try:
            value = self._make(key)
        except BaseException as error:
            with self._lock:
                self._kept.pop(key, None)
            own.set_exception(error)
            raise
        own.set_result(value)
        with self._lock:
            self._sizes[key] = self._size(value)
            while sum(self._sizes.values()) > self._capacity and len(self._sizes) > 1:
                oldest = next(iter(name for name in self._kept if name in self._sizes))
                del self._kept[oldest], self._sizes[oldest]
        return value
