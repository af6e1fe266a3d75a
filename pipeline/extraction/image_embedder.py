"""Embed image files with one backbone: decode, crop, make the views, embed.

Stage `embed` (locally and on the workers of a cluster) and `referee predict` share this implementation, so an image
gets the same row from all of them.

On the CPU every forward pass has 16 rows (the last pass is padded) and one thread; passes run in parallel. Vision
transformers were measured to give the same bits at any batch size, convolutional networks (oneDNN) only at a fixed
batch size and thread count. With both fixed, an embedding depends on the image alone, and a resumed, extended or
differently parallel run ends with the same bytes. On an accelerator the user sets the batch size, which is halved if
memory runs out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pipeline.encoders.backbone import build_image_encoder
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.errors import ModelError
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.images import Crops, Image, load_crops
from pipeline.extraction.ordered_map import ordered_map, worker_count
from pipeline.method.frequency_views import frequency_views, noise_words
from pipeline.method.rows import Matrix

CPU_ROWS = 16
ViewEmbeddings = Mapping[str, Matrix]  # (n, d) by view
Loaded = list[Tensor]  # crops (n, h, w, 3) and words of noise (n, count)


@dataclass(frozen=True)
class Batch:
    """Images that pass through the model together, and their views to embed."""

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
    """Group images by their views for which ``is_done(view, digest)`` is false, in batches of at most ``size``.

    Images with the same content are embedded once.
    """
    by_views: dict[tuple[str, ...], dict[bytes, Image]] = {}
    for image in images:
        missing = tuple(view for view in views if not is_done(view, image.digest))
        if missing:
            by_views.setdefault(missing, {}).setdefault(image.digest, image)
    groups = ((missing, tuple(group.values())) for missing, group in by_views.items())
    return [
        Batch(group[start : start + size], missing) for missing, group in groups for start in range(0, len(group), size)
    ]


class ImageEmbedder:
    """Embeds batches of image files, ``batch_size`` images per forward pass.

    ``is_thread_parallel`` is true if several threads embed at once (CPU), false if one thread feeds the device.
    """

    def __init__(self, encoder: ImageEncoder, settings: EmbeddingSettings) -> None:
        self.encoder = encoder
        self.settings = settings
        self._on_gpu = encoder.device.type == "cuda"
        self.is_thread_parallel = encoder.device.type == "cpu"
        self.batch_size = CPU_ROWS if self.is_thread_parallel else settings.batch_size

    @classmethod
    def build(cls, settings: EmbeddingSettings, *, device: str | None = None) -> Self:
        """Build the backbone on ``device``, by default that of the settings."""
        torch.set_num_threads(1)  # batches run in parallel instead
        encoder = build_image_encoder(settings.backbone, device or settings.device)
        if settings.compile and encoder.device.type != "cpu":  # a CPU must give the same bytes everywhere
            encoder.compile()
        return cls(encoder, settings)

    def embed(self, batches: Iterable[Batch], *, workers: int | None = None) -> Iterator[tuple[Any, ViewEmbeddings]]:
        """Yield pairs (batch, rows) in order, with only a few batches in memory at a time.

        Decoding runs in parallel with the model. On the CPU each thread both loads and embeds its batches, without
        handover or oversubscription. On an accelerator the threads load ahead, and this thread starts the next batch
        before it waits for the rows of the last.
        """
        count = worker_count(self.settings.workers) if workers is None else workers
        threads = partial(ordered_map, workers=count, initializer=partial(torch.set_num_threads, 1))
        if self.is_thread_parallel:
            yield from threads(lambda batch: (batch, self.start(batch, self.load(batch))()), batches)
            return
        pending: list[tuple[Batch, Callable[[], ViewEmbeddings]]] = []
        failure: Exception | None = None
        try:
            for batch, loaded in threads(lambda batch: (batch, self.load(batch)), batches):
                pending.append((batch, self.start(batch, loaded)))
                if len(pending) > 1:  # the accelerator already has its next batch
                    previous, wait = pending.pop(0)
                    yield previous, wait()
        except Exception as error:  # noqa: BLE001  raised below, after the rows of started batches
            failure = error
        yield from ((batch, wait()) for batch, wait in pending)
        if failure is not None:
            raise failure

    def load(self, batch: Batch) -> Loaded:
        """Return a batch's input for `start`; thread-safe."""
        return self.prepare(batch, load_crops(batch.images, self.encoder.preprocessing))

    def prepare(self, batch: Batch, crops: Crops) -> Loaded:
        """Return crops (n, h, w, 3) and the noise of the view `rand`, in memory that a GPU copies asynchronously."""
        n, height, width, channels = crops.shape
        words = np.empty((n, 0), dtype=np.int16)
        if "rand" in batch.views:
            words = noise_words((channels, height, width), self.settings.views, batch.digests)
        tensors = [torch.from_numpy(crops), torch.from_numpy(words)]
        return [tensor.pin_memory() for tensor in tensors] if self._on_gpu else tensors

    @torch.no_grad()
    def start(self, batch: Batch, loaded: Loaded) -> Callable[[], ViewEmbeddings]:
        """Start embedding a batch; return a function that waits for the rows (n, d) by view.

        On a GPU this queues copies and kernels and returns at once; on the CPU it does all the work.
        """
        parts: list[dict[str, Callable[[], Matrix]]] = []
        done = 0
        while done < len(batch.images):
            part = slice(done, done + self.batch_size)
            try:
                crops, words = (tensor[part].to(self.encoder.device, non_blocking=self._on_gpu) for tensor in loaded)
                images = crops.permute(0, 3, 1, 2).float().div_(255.0)
                rows = self.embed_part(batch, part, images, words)
                parts.append({view: _transfer(rows[view]) for view in batch.views})
                done = part.stop
                continue
            except torch.OutOfMemoryError:
                pass  # halved below, because the handler's traceback still holds the tensors
            self._halve()
        dtype = self.settings.backbone.stored_as
        return lambda: {
            view: np.concatenate([part[view]() for part in parts]).astype(dtype, copy=False) for view in batch.views
        }

    def embed_part(self, batch: Batch, part: slice, images: Tensor, words: Tensor) -> Mapping[str, Tensor]:
        """Return the rows (n, d) by view of ``images`` (n, 3, h, w), a part of a batch."""
        views = frequency_views(images, batch.views, self.settings.views, batch.digests[part], words)
        return {view: self.encoder.embed(self.padded(pixels))[: len(pixels)] for view, pixels in views.items()}

    def padded(self, values: Tensor) -> Tensor:
        """Return values padded with zeros to `batch_size` on the CPU, unchanged on an accelerator."""
        missing = self.batch_size - len(values)
        if not self.is_thread_parallel or not missing:
            return values
        return torch.cat([values, values.new_zeros(missing, *values.shape[1:])])

    def _halve(self) -> None:
        if self.batch_size == 1:
            raise ModelError(
                "the accelerator's memory does not hold one image; use a smaller model, "
                "precision: float16, or runtime.device: cpu"
            )
        self.batch_size //= 2
        if self._on_gpu:
            torch.cuda.empty_cache()


def _transfer(rows: Tensor) -> Callable[[], Matrix]:
    """Start copying rows from the device (a GPU's into pinned memory); return a function that waits for them."""
    if rows.device.type != "cuda":
        return lambda: rows.cpu().numpy()
    pinned = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
    pinned.copy_(rows, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()

    def wait() -> Matrix:
        copied.synchronize()
        return pinned.numpy()

    return wait
