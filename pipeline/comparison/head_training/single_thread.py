"""One torch thread while a head trains: the same bits on any machine's number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_inside = 0
_outside = 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one torch thread; afterwards the number is what it was.

    Seeds may train side by side in threads of Python. A thread starts with the number that any thread set last, so the
    second to enter would take the first one's 1 for the number to restore: only the first one looks.
    """
    import torch

    global _inside, _outside  # noqa: PLW0603  the process has one number of threads
    with _lock:
        if not _inside:
            _outside = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            # even if others are inside: this sets the number of this thread and of threads to come, not theirs
            torch.set_num_threads(_outside)
