"""Stream images through decode, views and model, and record every batch as soon as it is done.

Memory holds a few batches however many images there are. Decoding runs beside the model: on the CPU each worker
thread decodes a batch and embeds it itself (nothing to hand over, no oversubscription); on an accelerator the workers
decode ahead and the main thread keeps the device busy, one batch ahead of the rows it waits for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.execution.ordered_map import ordered_map

Crops = npt.NDArray[np.uint8]
Embedded = Mapping[str, npt.NDArray[np.floating]]
Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class Picture:
    """An image to embed: where it is, and the sha256 of its file."""

    path: Path
    digest: bytes


@dataclass(frozen=True)
class Batch:
    """Images that go through the model together, and the views of them that are wanted."""

    pictures: tuple[Picture, ...]
    views: tuple[str, ...]

    @property
    def digests(self) -> list[bytes]:
        """The sha256 digests of the batch's images."""
        return [picture.digest for picture in self.pictures]


def plan_batches(
    pictures: Iterable[Picture],
    views: Sequence[str],
    is_done: Callable[[str, bytes], bool],
    size: int,
) -> list[Batch]:
    """Group the images whose views are not all done by what they lack, ``size`` at a time; each content once."""
    lacking: dict[tuple[str, ...], dict[bytes, Picture]] = {}
    for picture in pictures:
        missing = tuple(view for view in views if not is_done(view, picture.digest))
        if missing:
            lacking.setdefault(missing, {}).setdefault(picture.digest, picture)
    return [
        Batch(part, missing)
        for missing, group in lacking.items()
        for part in _pieces(group.values(), size)
    ]


def _pieces(pictures: Iterable[Picture], size: int) -> Iterator[tuple[Picture, ...]]:
    rest = iter(pictures)
    while part := tuple(itertools.islice(rest, size)):
        yield part


def extract(
    batches: Sequence[Batch],
    *,
    load: Callable[[Batch], Loaded],
    start: Callable[[Loaded], Callable[[], Embedded]],
    record: Callable[[Batch, Embedded], None],
    workers: int,
    embed_in_workers: bool,
    initializer: Callable[[], None] | None = None,
) -> None:
    """Decode, embed and record every batch, in order.

    ``load`` decodes a batch; ``start`` sets the model to work on it and returns a function that waits for its rows
    (n, d) per view; ``record`` is only called from this thread.
    """

    def whole(batch: Batch) -> tuple[Batch, Embedded]:
        return batch, start(load(batch))()

    def part(batch: Batch) -> tuple[Batch, Loaded]:
        return batch, load(batch)

    ahead = 2 * workers
    if embed_in_workers:
        for batch, embedded in ordered_map(
            whole, batches, workers=workers, ahead=ahead, initializer=initializer
        ):
            record(batch, embedded)
        return
    waiting: list[tuple[Batch, Callable[[], Embedded]]] = []
    try:
        for batch, loaded in ordered_map(
            part, batches, workers=workers, ahead=ahead, initializer=initializer
        ):
            waiting.append((batch, start(loaded)))
            if len(waiting) > 1:  # the accelerator has its next batch before we wait for the last
                _record_first(waiting, record)
    finally:  # also where an image cannot be read: what was under way is not lost
        while waiting:
            _record_first(waiting, record)


def _record_first(
    waiting: list[tuple[Batch, Callable[[], Embedded]]], record: Callable[[Batch, Embedded], None]
) -> None:
    batch, finish = waiting.pop(0)
    record(batch, finish())


def worker_count(asked: int) -> int:
    """Return how many threads to use: those asked for, or the cores this process may use."""
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
