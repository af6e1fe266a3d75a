"""Hand out images to the workers of a Dask cluster, block by block.

Workers read images and return rows; this process alone writes, to the same progress log as without
a cluster. A block that is done twice (its worker died before the rows were fetched) is recorded
once, and a run that ends early goes on from there, with or without a cluster.
"""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from cachetools import LRUCache, cached

from pipeline.errors import ModelError, listed
from pipeline.extraction.cluster import Cluster, warn
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.image_embedder import CPU_ROWS, Batch, ImageEmbedder, ViewEmbeddings, plan_batches
from pipeline.extraction.images import Image

SECONDS = 5.0  # that a block should take
MOST = 8192  # images of a block


class BlockRows(NamedTuple):
    """What a worker returns: rows (n, d) by view, the processor that computed them, and the seconds."""

    rows: ViewEmbeddings
    device: str
    seconds: float


def embed_on_cluster(
    cluster: Cluster, settings: EmbeddingSettings, weights: str, batches: Sequence[Batch]
) -> Iterator[tuple[Batch, ViewEmbeddings]]:
    """Have workers embed batches; yield several joined to one, with their rows, as soon as they are done."""
    origin = str(Path(settings.backbone.origin).absolute())  # a worker runs in another folder
    settings = replace(settings, backbone=settings.backbone.model_copy(update={"origin": origin}))
    work = partial(embed_block, settings, weights, Path.cwd())
    devices: set[str] = set()
    blocks = BlockSizes(batches, cluster.threads)
    for block, result in cluster.collect(work, blocks):
        yield block, result.rows
        blocks.learn(len(block.images), result.seconds)
        devices.add(result.device)
    if len(devices) > 1:
        warn(
            f"the workers compute on {listed(sorted(devices))}, which may round differently: "
            "embedded again, last bits may differ"
        )


def embed_block(settings: EmbeddingSettings, weights: str, folder: Path, block: Batch) -> BlockRows:
    """Embed a block of images on a worker, which has the project at the absolute path ``folder``.

    On the CPU a task has one thread; as many tasks run at once as the worker has threads. An
    accelerator takes one block at a time, and the worker's cores decode for it.
    """
    torch.set_num_threads(1)
    embedder = _embedder(settings, weights)
    began = time.perf_counter()
    images = (Image(folder / image.path, image.digest) for image in block.images)
    batches = plan_batches(images, block.views, embedder.batch_size)
    on_cpu = embedder.is_thread_parallel
    with nullcontext() if on_cpu else _device:
        parts = [rows for _, rows in embedder.embed(batches, workers=1 if on_cpu else None)]
    # One array per view: a thousand small ones take a network ten times as long.
    rows = {view: np.concatenate([part[view] for part in parts]) for view in block.views}
    device = embedder.encoder.device
    kind = f"{device.type} {torch.backends.cpu.get_cpu_capability()}"  # other kinds round differently
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else kind
    return BlockRows(rows, name, time.perf_counter() - began)


_device = threading.Lock()


# one model at a time; the condition: tasks that want it wait for the one that builds it
@cached(LRUCache(1), key=lambda settings, weights: repr((settings, weights)), condition=threading.Condition())
def _embedder(settings: EmbeddingSettings, weights: str) -> ImageEmbedder:
    """Return the embedder of a worker, whose weights must have this fingerprint."""
    embedder = ImageEmbedder.build(settings)
    if embedder.encoder.fingerprint != weights:
        raise ModelError(
            f"{settings.backbone.origin}: other weights than those of the process that hands "
            "out the work; give every worker the same checkpoint"
        )
    return embedder


class BlockSizes:
    """Makes blocks of batches that take about ``seconds``, learnt on the way; iterate to get them.

    A block is small enough that a lost worker costs seconds and that all workers end together (never more than half of
    what each of ``threads()`` has still to do), and large enough that the cluster's own work, a few milliseconds per
    task, and an accelerator's start and stop do not show. The size decides nothing about the rows.
    """

    def __init__(self, batches: Sequence[Batch], threads: Callable[[], int], *, seconds: float = SECONDS) -> None:
        self._batches, self._threads, self._seconds = batches, threads, seconds
        self._left = sum(len(batch.images) for batch in batches)
        self._per_image: float | None = None

    def learn(self, images: int, seconds: float) -> None:
        """Take the time of a finished block into account; a slow worker moves the estimate by a fifth."""
        measured = max(seconds / images, 1e-9)
        self._per_image = measured if self._per_image is None else 0.8 * self._per_image + 0.2 * measured

    def __iter__(self) -> Iterator[Batch]:
        """Yield blocks: neighbouring batches with the same views, each image once."""
        for views, batches in itertools.groupby(self._batches, key=lambda batch: batch.views):
            images = [image for batch in batches for image in batch.images]
            start = 0
            while start < len(images):
                block = images[start : start + self._size()]
                start += len(block)
                self._left -= len(block)
                yield Batch(tuple(block), views)

    def _size(self) -> int:
        """Return how many images the next block should have: full passes of a CPU."""
        if self._per_image is None:
            return CPU_ROWS  # the first answer comes soon
        share = self._left / (2 * max(1, self._threads()))
        return CPU_ROWS * max(1, math.ceil(min(MOST, self._seconds / self._per_image, share) / CPU_ROWS))
