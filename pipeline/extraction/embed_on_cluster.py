"""Embed images on the workers of a Dask cluster, block by block.

Workers read images and return rows. Only this process writes, to the same progress log as without a cluster. A block
that was computed twice (its worker died before the rows were fetched) is recorded once. An interrupted run continues
from the log, with or without a cluster.
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

BLOCK_SECONDS = 5.0  # target duration of a block
MAX_BLOCK_IMAGES = 8192


class BlockRows(NamedTuple):
    """Result of a worker: rows (n, d) by view, the processor that computed them, and the seconds it took."""

    rows: ViewEmbeddings
    device: str
    seconds: float


def embed_on_cluster(
    cluster: Cluster, settings: EmbeddingSettings, weights: str, batches: Sequence[Batch]
) -> Iterator[tuple[Batch, ViewEmbeddings]]:
    """Embed batches on the workers; yield pairs (block of joined batches, rows) as soon as they are done."""
    origin = str(Path(settings.backbone.origin).absolute())  # a worker runs in another folder
    settings = replace(settings, backbone=settings.backbone.model_copy(update={"origin": origin}))
    devices: set[str] = set()
    blocks = BlockSizes(batches, cluster.threads)
    for block, result in cluster.collect(partial(embed_block, settings, weights, Path.cwd()), blocks):
        yield block, result.rows
        blocks.learn(len(block.images), result.seconds)
        devices.add(result.device)
    if len(devices) > 1:
        warn(
            f"the workers compute on {listed(sorted(devices))}, which may round differently: "
            "another extraction may differ in the last bits"
        )


def embed_block(settings: EmbeddingSettings, weights: str, folder: Path, block: Batch) -> BlockRows:
    """Embed a block of images on a worker, which has the project at the absolute path ``folder``.

    On the CPU a task uses one thread, and a worker runs as many tasks at once as it has threads. An accelerator
    processes one block at a time, and all cores of the worker decode images for it.
    """
    torch.set_num_threads(1)
    embedder = _embedder(settings, weights)
    start = time.perf_counter()
    images = (Image(folder / image.path, image.digest) for image in block.images)
    batches = plan_batches(images, block.views, embedder.batch_size)
    on_cpu = embedder.is_thread_parallel
    with nullcontext() if on_cpu else _device_lock:
        parts = [rows for _, rows in embedder.embed(batches, workers=1 if on_cpu else None)]
    # One array per view: sending a thousand small ones takes ten times as long.
    rows = {view: np.concatenate([part[view] for part in parts]) for view in block.views}
    device = embedder.encoder.device
    kind = f"{device.type} {torch.backends.cpu.get_cpu_capability()}"  # instruction sets round differently
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else kind
    return BlockRows(rows, name, time.perf_counter() - start)


_device_lock = threading.Lock()


# Keeps one model; the condition makes other tasks wait for the one that builds it.
@cached(LRUCache(1), key=lambda settings, weights: repr((settings, weights)), condition=threading.Condition())
def _embedder(settings: EmbeddingSettings, weights: str) -> ImageEmbedder:
    """Return a worker's embedder; raise ModelError unless its weights have this fingerprint."""
    embedder = ImageEmbedder.build(settings)
    if embedder.encoder.fingerprint != weights:
        raise ModelError(
            f"{settings.backbone.origin}: other weights than those of the process that submits "
            "the work; give every worker the same checkpoint"
        )
    return embedder


class BlockSizes:
    """Iterable of blocks of batches that take about ``seconds`` each, estimated from finished blocks.

    Blocks are small enough that a lost worker costs seconds and that all workers end together: at most half of the
    remaining work of each of ``threads()``. They are large enough to hide Dask's overhead, a few milliseconds per task,
    and the start and stop of an accelerator. The rows do not depend on the size.
    """

    def __init__(self, batches: Sequence[Batch], threads: Callable[[], int], *, seconds: float = BLOCK_SECONDS) -> None:
        self._batches, self._threads, self._seconds = batches, threads, seconds
        self._remaining = sum(len(batch.images) for batch in batches)
        self._per_image: float | None = None

    def learn(self, images: int, seconds: float) -> None:
        """Update the estimate by the time of a finished block, at a weight of a fifth."""
        measured = max(seconds / images, 1e-9)
        self._per_image = measured if self._per_image is None else 0.8 * self._per_image + 0.2 * measured

    def __iter__(self) -> Iterator[Batch]:
        """Yield blocks of neighbouring images with the same views, each image once."""
        for views, batches in itertools.groupby(self._batches, key=lambda batch: batch.views):
            images = [image for batch in batches for image in batch.images]
            start = 0
            while start < len(images):
                block = images[start : start + self._size()]
                start += len(block)
                self._remaining -= len(block)
                yield Batch(tuple(block), views)

    def _size(self) -> int:
        """Return the number of images of the next block, a multiple of a CPU's forward pass."""
        if self._per_image is None:
            return CPU_ROWS  # for a first measurement soon
        share = self._remaining / (2 * max(1, self._threads()))
        return CPU_ROWS * max(1, math.ceil(min(MAX_BLOCK_IMAGES, self._seconds / self._per_image, share) / CPU_ROWS))
