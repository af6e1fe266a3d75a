"""How much is tried, and how it is counted: hundreds of inputs in `make test`, thousands in `make test-long`."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings

from pipeline.errors import RefereeError

tried: Counter[str] = Counter()


def examples(count: int) -> Any:
    """Return the settings of a test of so many inputs, the same in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def only_our_errors(kind: str, *, lines: bool = False, again: bool = False) -> Iterator[None]:
    """Let an input pass, or fail in one line of ours; any other exception is a failure of the test.

    lines: several mistakes may be told, one line each. again: the same input, read by something else; not counted.
    """
    tried[kind] += not again
    try:
        yield
    except RefereeError as error:
        text = str(error)
        assert text.strip()
        assert lines or "\n" not in text, text


@contextmanager
def little_memory(more: int = 3 * 2**30) -> Iterator[None]:
    """Allow the process no more than ``more`` bytes beyond what it has: an absurd allocation is then an error."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        has = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (has + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
