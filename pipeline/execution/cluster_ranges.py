"""Ranges of rows on a cluster: one partial statistic per range, added in a tree; only the total comes back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pipeline.execution.cluster import Cluster
from pipeline.execution.single_thread import with_one_thread

Shared = TypeVar("Shared")
Part = TypeVar("Part")
Result = TypeVar("Result")

PER_THREAD = 2  # ranges: a slow worker takes one where the others take three


class ClusterRanges:
    """Takes ranges of rows to the workers, which read them from the stores themselves; see `RowRanges`.

    What all ranges share is sent once, as a task: the scheduler can have it made again if the worker that holds it
    is lost.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def count(self) -> int:
        """Return how many ranges are worth making."""
        return max(1, PER_THREAD * self._cluster.threads())

    def summed(
        self, function: Callable[[Shared, Part], Any], shared: Shared, parts: Sequence[Part]
    ) -> Any:
        """Return the sum of ``function(shared, part)``, added in pairs on the workers."""
        level = self._handed_out(function, shared, parts)
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            odd = level[len(level) // 2 * 2 :]
            level = [self._cluster.submit(operator.add, a, b) for a, b in pairs] + odd
        return self._cluster.result(level[0])

    def listed(
        self, function: Callable[[Shared, Part], Result], shared: Shared, parts: Sequence[Part]
    ) -> list[Result]:
        """Return ``function(shared, part)`` of every part, in order."""
        return [self._cluster.result(f) for f in self._handed_out(function, shared, parts)]

    def _handed_out(
        self, function: Callable[[Shared, Part], Any], shared: Shared, parts: Sequence[Part]
    ) -> list[Any]:
        sent = self._cluster.submit(_itself, shared)
        return [self._cluster.submit(with_one_thread, function, sent, part) for part in parts]


def _itself(shared: Shared) -> Shared:
    return shared
