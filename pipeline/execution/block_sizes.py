"""How many images to hand out at once: as many as take a worker some seconds, learnt on the way.

Small enough that a lost worker costs seconds and that all end together (a block is never more than half of what each
thread has still to do); large enough that the cluster's own work, a few milliseconds per task, and an accelerator's
start and stop do not show. The size decides nothing about the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pipeline.execution.extraction import Batch

SECONDS = 5.0
MOST = 8192  # images


class BlockSizes:
    """Joins small batches to blocks that take about ``seconds``."""

    def __init__(
        self, batches: Sequence[Batch], threads: Callable[[], int], *, seconds: float = SECONDS
    ) -> None:
        """Take batches and a function that says how many tasks run at once."""
        self._batches = batches
        self._threads = threads
        self._seconds = seconds
        self._left = sum(len(batch.pictures) for batch in batches)
        self._per_image: float | None = None

    def took(self, images: int, seconds: float) -> None:
        """Learn from a block that is done; a slow worker moves the estimate by a fifth, not all the way."""
        measured = seconds / max(1, images)
        known = self._per_image
        self._per_image = measured if known is None else 0.8 * known + 0.2 * measured

    @property
    def images(self) -> int:
        """How many images the next block should have."""
        if self._per_image is None:
            return 1  # one batch: the first answer comes soon
        in_time = round(self._seconds / max(self._per_image, 1e-9))
        share = math.ceil(self._left / (2 * max(1, self._threads())))
        return max(1, min(MOST, in_time, share))

    def __iter__(self) -> Iterator[Batch]:
        """Yield blocks: neighbours among the batches that want the same views, each image once."""
        joined: list[Batch] = []
        for batch in self._batches:
            full = sum(len(part.pictures) for part in joined) >= self.images
            if joined and (full or batch.views != joined[0].views):
                yield self._block(joined)
                joined = []
            joined.append(batch)
        if joined:
            yield self._block(joined)

    def _block(self, batches: Sequence[Batch]) -> Batch:
        pictures = tuple(picture for batch in batches for picture in batch.pictures)
        self._left -= len(pictures)
        return Batch(pictures, batches[0].views)
