"""One backbone that embeds image files: decode, crop, make the views, embed.

This is the only implementation. Stage `embed` uses it here and on workers of a cluster, `referee predict` uses it for
new images; an image therefore gets the same row from all of them.

On the CPU every forward pass has the same 16 rows (the last one padded) and one thread; parallelism is over passes.
Measured: vision transformers give the same bits whatever the batch, convolutional networks (oneDNN) only at a fixed
batch and thread count. An image's embedding is therefore a function of the image alone, and a resumed, extended or
differently parallel run ends with the same bytes. On an accelerator the batch size is the user's, halved when memory
runs out.

Work is split in three, so that an accelerator never waits: `ImageEmbedder.load` (any thread: pixels, noise, pinned
memory), `ImageEmbedder.start` (one thread: queues copies and kernels and returns at once), and the function that
`start` returns, which waits for the rows. On the CPU `start` does the work.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.encoders.backbone import build_image_encoder
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.errors import ModelError
from pipeline.extraction.batches import Batch, ViewEmbeddings, stream
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.images import Crops, load_crops
from pipeline.extraction.ordered_map import worker_count
from pipeline.method.frequency_views import frequency_views, noise_words

CPU_ROWS = 16


class ImageEmbedder:
    """Embeds batches of image files, ``batch_size`` in a forward pass.

    ``is_thread_parallel`` says whether several threads embed at once (the CPU) or one feeds the device.
    """

    def __init__(self, encoder: ImageEncoder, settings: EmbeddingSettings) -> None:
        self.encoder = encoder
        self._settings = settings
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

    def embed(self, batches: Sequence[Batch], *, workers: int | None = None) -> Iterator[tuple[Batch, ViewEmbeddings]]:
        """Yield every batch with its rows, in order."""
        count = worker_count(self._settings.workers) if workers is None else workers
        return stream(batches, load=self.load, start=self.start, side_by_side=self.is_thread_parallel, workers=count)

    def load(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return what `start` takes of a batch; safe in any thread."""
        return self.prepare(batch, load_crops(batch.images, self.encoder.preprocessing))

    def prepare(self, batch: Batch, crops: Crops) -> tuple[Tensor, Tensor | None]:
        """Return crops (n, h, w, 3) and the noise of the view `rand`, from where a GPU copies while the CPU goes on."""
        words = None
        if "rand" in batch.views:
            _, height, width, channels = crops.shape
            words = torch.from_numpy(noise_words((channels, height, width), self._settings.views, batch.digests))
        pixels = torch.from_numpy(crops)
        if not self._on_gpu:
            return pixels, words
        return pixels.pin_memory(), None if words is None else words.pin_memory()

    @torch.inference_mode()
    def start(self, batch: Batch, loaded: tuple[Tensor, Tensor | None]) -> Callable[[], ViewEmbeddings]:
        """Start embedding a batch; the function that is returned waits for the rows (n, d) by view."""
        parts: list[dict[str, Callable[[], npt.NDArray[np.floating]]]] = []
        done = 0
        while done < len(batch.images):
            part = slice(done, done + self.batch_size)
            try:
                parts.append(self._run(batch, loaded, part))
                done = part.stop
                continue
            except torch.OutOfMemoryError:
                pass  # halved below: the handler's traceback still holds the tensors
            self._halve()
        dtype = self._settings.backbone.stored_as
        return lambda: {
            view: np.concatenate([part[view]() for part in parts]).astype(dtype, copy=False) for view in batch.views
        }

    def _run(
        self, batch: Batch, loaded: tuple[Tensor, Tensor | None], part: slice
    ) -> dict[str, Callable[[], npt.NDArray[np.floating]]]:
        """Copy a part of the batch to the device, make its views, embed them."""
        to_device = partial(Tensor.to, device=self.encoder.device, non_blocking=self._on_gpu)
        crops, words = to_device(loaded[0][part]), None if loaded[1] is None else to_device(loaded[1][part])
        images = crops.permute(0, 3, 1, 2).float().div_(255.0)
        views = frequency_views(images, batch.views, self._settings.views, batch.digests[part], words)
        return {view: _transfer(self._embed(pixels)) for view, pixels in views.items()}

    def _embed(self, images: Tensor) -> Tensor:
        """Embed at most `batch_size` images; on the CPU exactly as many, padded with black ones."""
        n = len(images)
        if self.is_thread_parallel and n < self.batch_size:
            images = torch.cat([images, images.new_zeros(self.batch_size - n, *images.shape[1:])])
        return self.encoder.embed(images)[:n]

    def _halve(self) -> None:
        if self.batch_size == 1:
            raise ModelError(
                "the accelerator's memory does not hold one image; use a smaller model, "
                "precision: float16, or runtime.device: cpu"
            )
        self.batch_size //= 2
        if self._on_gpu:
            torch.cuda.empty_cache()


def _transfer(rows: Tensor) -> Callable[[], npt.NDArray[np.floating]]:
    """Return a function that waits for rows on their way from the device, a GPU's into pinned memory."""
    if rows.device.type != "cuda":
        return lambda: rows.cpu().numpy()
    here = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
    here.copy_(rows, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> npt.NDArray[np.floating]:
        arrived.synchronize()
        return here.numpy()

    return wait
