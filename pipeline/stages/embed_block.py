"""Decode and embed images with a backbone: the work of `embed`, in its own process or on a worker of a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch

from pipeline.encoders import image_decoding
from pipeline.encoders.device import choose_device
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.view_embedder import Prepared, ViewEmbedder
from pipeline.errors import ModelError
from pipeline.execution.extraction import (
    Batch,
    Crops,
    Embedded,
    Picture,
    extract,
    plan_batches,
    worker_count,
)
from pipeline.method.frequency_views import ViewSettings
from pipeline.params import Model, Runtime, Views
from pipeline.stages.backbones import build_image_encoder


@dataclass(frozen=True)
class Backbone:
    """What a worker needs to embed as this process would.

    spec: its origin is an absolute path. weights: the fingerprint that they must have.
    """

    spec: Model
    views: Views
    runtime: Runtime
    weights: str

    @classmethod
    def of(cls, spec: Model, views: Views, runtime: Runtime, weights: str) -> Backbone:
        """Return the backbone with its checkpoint where every machine finds it."""
        there = spec.model_copy(update={"origin": str(Path(spec.origin).absolute())})
        return cls(there, views, runtime, weights)


@dataclass(frozen=True)
class BlockRows:
    """What came of a block: the rows of each batch, what computed them, and the seconds it took."""

    batches: list[tuple[list[bytes], Embedded]]
    device: str
    seconds: float


@dataclass(frozen=True)
class BlockEmbedder:
    """An encoder with what stands around it: decoding, views, the type in which rows are stored."""

    encoder: ImageEncoder
    embedder: ViewEmbedder
    dtype: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, encoder: ImageEncoder, spec: Model, views: Views, rows: int) -> BlockEmbedder:
        """Return the embedder of an encoder that has been built; ``rows`` of a pass on an accelerator."""
        settings = ViewSettings(**views.model_dump())
        embedder = ViewEmbedder(encoder, settings, device=encoder.device, rows=rows)
        return cls(encoder, embedder, spec.stored_as)

    def _crop(self, picture: Picture) -> Crops:
        image = image_decoding.decode(
            picture.path,
            expected_sha256=picture.digest.hex(),
            upright=self.encoder.preprocessing.upright,
        )
        return self.encoder.preprocessing.crop(image)

    def _load(self, batch: Batch) -> Prepared:
        crops = np.stack([self._crop(picture) for picture in batch.pictures])
        return self.embedder.prepare(crops, batch.digests, batch.views)

    def run(
        self, batches: Sequence[Batch], record: Callable[[Batch, Embedded], None], threads: int
    ) -> None:
        """Embed the batches with so many threads; ``record`` is called from this thread."""
        extract(
            batches,
            load=self._load,
            start=lambda prepared: self.embedder.start(prepared, self.dtype),
            record=record,
            workers=threads,
            embed_in_workers=self.embedder.is_thread_parallel,
            initializer=partial(torch.set_num_threads, 1),
        )


_built: dict[str, BlockEmbedder] = {}  # at most one: a worker embeds with one model at a time
_building = threading.Lock()


def _embedder(backbone: Backbone) -> BlockEmbedder:
    """Return the backbone's embedder, built once per worker."""
    key = repr(backbone)
    with _building:
        if key not in _built:
            _built.clear()
            device = choose_device(backbone.runtime.device)
            encoder = build_image_encoder(backbone.spec, device)
            if encoder.fingerprint != backbone.weights:
                raise ModelError(
                    f"{backbone.spec.origin}: other weights than those of the process that hands out the work; "
                    "give every worker the same checkpoint"
                )
            rows = backbone.runtime.batch_size
            _built[key] = BlockEmbedder.of(encoder, backbone.spec, backbone.views, rows)
        return _built[key]


def embed_block(backbone: Backbone, block: Batch) -> BlockRows:
    """Embed a block of images on a worker.

    On the CPU a task has one thread, as many tasks run at once as the worker has threads. An accelerator takes one
    block at a time, and the worker's cores decode for it.
    """
    torch.set_num_threads(1)
    made = _embedder(backbone)
    began = time.perf_counter()
    batches = plan_batches(
        block.pictures, block.views, lambda _view, _digest: False, made.embedder.rows
    )
    rows: list[tuple[list[bytes], Embedded]] = []

    def record(batch: Batch, embedded: Embedded) -> None:
        rows.append((batch.digests, embedded))

    if made.embedder.is_thread_parallel:
        made.run(batches, record, threads=1)
    else:
        with made.lock:
            made.run(batches, record, threads=worker_count(backbone.runtime.workers))
    return BlockRows(rows, _what_computes(made.encoder.device), time.perf_counter() - began)


def _what_computes(device: torch.device) -> str:
    """Name the kind of processor: other kinds round otherwise."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"
