"""Batches of images on their way through a model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from pipeline.extraction.images import Image
from pipeline.extraction.ordered_map import ordered_map

ViewEmbeddings = Mapping[str, npt.NDArray[np.floating]]  # (n, d) by view
Work = TypeVar("Work")
Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class Batch:
    """Images that go through the model together, and the views of them to embed."""

    images: tuple[Image, ...]
    views: tuple[str, ...]

    @property
    def digests(self) -> list[bytes]:
        """The sha256 digests of the images."""
        return [image.digest for image in self.images]


def plan_batches(
    images: Iterable[Image],
    views: Sequence[str],
    size: int,
    is_done: Callable[[str, bytes], bool] = lambda _view, _digest: False,
) -> list[Batch]:
    """Group images, at most ``size`` together, by the views for which ``is_done(view, digest)`` is false.

    Each content is taken once.
    """
    lacking: dict[tuple[str, ...], dict[bytes, Image]] = {}
    for image in images:
        missing = tuple(view for view in views if not is_done(view, image.digest))
        if missing:
            lacking.setdefault(missing, {}).setdefault(image.digest, image)
    groups = ((missing, tuple(group.values())) for missing, group in lacking.items())
    return [
        Batch(group[start : start + size], missing) for missing, group in groups for start in range(0, len(group), size)
    ]


def stream(
    items: Iterable[Work],
    *,
    load: Callable[[Work], Loaded],
    start: Callable[[Work, Loaded], Callable[[], ViewEmbeddings]],
    side_by_side: bool,
    workers: int,
) -> Iterator[tuple[Work, ViewEmbeddings]]:
    """Load and embed pieces of work, in order; memory holds a few of them at a time.

    Decoding runs beside the model. On the CPU (``side_by_side``) each thread loads a piece and embeds it itself
    (nothing to hand over, no oversubscription). On an accelerator the threads load ahead and this thread keeps the
    device busy, one piece ahead of the rows it waits for: ``start`` returns a function that waits for them.
    """
    threads = partial(ordered_map, workers=workers, initializer=partial(torch.set_num_threads, 1))
    if side_by_side:
        yield from threads(lambda item: (item, start(item, load(item))()), items)
        return
    under_way: tuple[Work, Callable[[], ViewEmbeddings]] | None = None
    failure: Exception | None = None
    try:
        for item, loaded in threads(lambda item: (item, load(item)), items):
            started = item, start(item, loaded)
            if under_way:  # the accelerator has its next piece before we wait for the last
                yield under_way[0], under_way[1]()
            under_way = started
    except Exception as error:  # noqa: BLE001  raised below: rows under way are not lost
        failure = error
    if under_way:
        yield under_way[0], under_way[1]()
    if failure is not None:
        raise failure
