"""One BLAS thread per task on a worker: a cluster's parallelism is over tasks, and bits do not depend on cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def with_one_thread(function: Callable[..., Result], *args: Any) -> Result:
    """Call ``function`` after this process was told to use one thread; not taken back, other tasks may be at work."""
    import scipy.linalg.blas  # noqa: F401  loaded first: only libraries that are there can be told

    threadpool_limits(limits=1)
    return function(*args)
