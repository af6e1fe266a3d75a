"""One backbone that embeds image files: decode, crop, make the views, embed.

This is the only implementation. Stage `embed` uses it here and on workers of a cluster, `referee predict` uses it for
new images; an image therefore gets the same row from all of them.

On the CPU every forward pass has the same 16 rows (the last one padded) and one thread; parallelism is over passes.
Measured: vision transformers give the same bits whatever the batch, convolutional networks (oneDNN) only at a fixed
batch and thread count. An image's embedding is therefore a function of the image alone, and a resumed, extended or
differently parallel run ends with the same bytes. On an accelerator the batch size is the user's, halved when memory
runs out.
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


class ImageEmbedder:
    """Embeds batches of image files, ``batch_size`` in a forward pass.

    ``is_thread_parallel`` says whether several threads embed at once (the CPU) or one feeds the device.
    """

    def __init__(self, encoder: ImageEncoder, settings: EmbeddingSettings) -> None:
        self.encoder = encoder
        self.settings = settings
        self._on_gpu = encoder.device.type == "cuda"
        self.is_thread_parallel = encoder.device.type == "cpu"
        self.batch_size = CPU_ROWS if self.is_thread_parallel else settings.batch_size

    @classmethod
    def build(cls, settings: EmbeddingSettings, *, device: str | None = None) -> Self:
        """Build the backbone on ``device`` (by default that of the settings)."""
        torch.set_num_threads(1)  # parallel over batches instead
        encoder = build_image_encoder(settings.backbone, device or settings.device)
        if settings.compile and encoder.device.type != "cpu":  # rows of a CPU are the same bytes everywhere
            encoder.compile()
        return cls(encoder, settings)

    def embed(self, batches: Iterable[Batch], *, workers: int | None = None) -> Iterator[tuple[Any, ViewEmbeddings]]:
        """Yield every batch with its rows, in order; memory holds a few batches at a time.

        Decoding runs beside the model. On the CPU each thread loads a batch and embeds it itself (nothing to hand over,
        no oversubscription). On an accelerator the threads load ahead and this thread keeps the device busy, one batch
        ahead of the rows it waits for.
        """
        count = worker_count(self.settings.workers) if workers is None else workers
        threads = partial(ordered_map, workers=count, initializer=partial(torch.set_num_threads, 1))
        if self.is_thread_parallel:
            yield from threads(lambda batch: (batch, self.start(batch, self.load(batch))()), batches)
            return
        started: list[tuple[Batch, Callable[[], ViewEmbeddings]]] = []
        failure: Exception | None = None
        try:
            for batch, loaded in threads(lambda batch: (batch, self.load(batch)), batches):
                started.append((batch, self.start(batch, loaded)))
                if len(started) > 1:  # the accelerator has its next batch before we wait for the last
                    done, wait = started.pop(0)
                    yield done, wait()
        except Exception as error:  # noqa: BLE001  raised below: rows under way are not lost
            failure = error
        yield from ((batch, wait()) for batch, wait in started)
        if failure is not None:
            raise failure

    def load(self, batch: Batch) -> Loaded:
        """Return what `start` takes of a batch; safe in any thread."""
        return self.prepare(batch, load_crops(batch.images, self.encoder.preprocessing))

    def prepare(self, batch: Batch, crops: Crops) -> Loaded:
        """Return crops (n, h, w, 3) and the noise of the view `rand`, from where a GPU copies while the CPU goes on."""
        n, height, width, channels = crops.shape
        words = np.empty((n, 0), dtype=np.int16)
        if "rand" in batch.views:
            words = noise_words((channels, height, width), self.settings.views, batch.digests)
        tensors = [torch.from_numpy(crops), torch.from_numpy(words)]
        return [tensor.pin_memory() for tensor in tensors] if self._on_gpu else tensors

    @torch.no_grad()
    def start(self, batch: Batch, loaded: Loaded) -> Callable[[], ViewEmbeddings]:
        """Start embedding a batch; the function that is returned waits for the rows (n, d) by view.

        On a GPU this queues copies and kernels and returns at once; on the CPU it does the work.
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
                pass  # halved below: the handler's traceback still holds the tensors
            self._halve()
        dtype = self.settings.backbone.stored_as
        return lambda: {
            view: np.concatenate([part[view]() for part in parts]).astype(dtype, copy=False) for view in batch.views
        }

    def embed_part(self, batch: Batch, part: slice, images: Tensor, words: Tensor) -> Mapping[str, Tensor]:
        """Return the rows (n, d) by view of the ``images`` (n, 3, h, w) that are a part of a batch."""
        views = frequency_views(images, batch.views, self.settings.views, batch.digests[part], words)
        return {view: self.encoder.embed(self.padded(pixels))[: len(pixels)] for view, pixels in views.items()}

    def padded(self, values: Tensor) -> Tensor:
        """Return at most `batch_size` values as they are; on the CPU exactly as many, padded with zeros."""
        lacking = self.batch_size - len(values)
        if not self.is_thread_parallel or not lacking:
            return values
        return torch.cat([values, values.new_zeros(lacking, *values.shape[1:])])

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
    """Return a function that waits for rows on their way from the device, a GPU's into pinned memory."""
    if rows.device.type != "cuda":
        return lambda: rows.cpu().numpy()
    here = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
    here.copy_(rows, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> Matrix:
        arrived.synchronize()
        return here.numpy()

    return wait
