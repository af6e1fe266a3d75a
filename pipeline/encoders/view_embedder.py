"""Embed batches of crops in several frequency-aware views.

On the CPU every forward pass has the same 16 rows (the last one padded) and one thread; parallelism
is over passes. Measured: vision transformers give the same bits whatever the batch, convolutional
networks (oneDNN) only at a fixed batch and thread count. An image's embedding is therefore a
function of the image alone, and a resumed, extended or differently parallel run ends with the same
bytes. On an accelerator the batch size is the user's, halved when memory runs out.

Work is split in three, so that an accelerator never waits: `ViewEmbedder.prepare` (any thread:
noise, pinned memory), `ViewEmbedder.start` (one thread: queues copies and kernels and returns at
once), and the function that `start` returns, which waits for the rows. On the CPU `start` does the
work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.errors import ModelError
from pipeline.method.frequency_views import ViewSettings, frequency_views, noise_words

if TYPE_CHECKING:
    from pipeline.encoders.image_encoder import ImageEncoder

CPU_ROWS = 16

Crops = npt.NDArray[np.uint8]
Embeddings = npt.NDArray[np.floating]
Finish = Callable[[], dict[str, Embeddings]]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A batch ready for the device: crops (n, h, w, 3) uint8, sha256 digests, views, and words of the noise."""

    crops: Tensor
    digests: Sequence[bytes]
    views: tuple[str, ...]
    words: Tensor | None

    def __len__(self) -> int:
        return len(self.crops)


class ViewEmbedder:
    """Embeds batches of crops in several views; on the CPU several threads may call it at once.

    Parameters
    ----------
    rows : int
        Images of a forward pass on an accelerator; on the CPU it is always 16.
    """

    def __init__(self, encoder: ImageEncoder, settings: ViewSettings, *, rows: int) -> None:
        self._encoder = encoder
        self._settings = settings
        self._on_gpu = encoder.device.type == "cuda"
        self.is_thread_parallel = encoder.device.type == "cpu"
        self.rows = CPU_ROWS if self.is_thread_parallel else rows

    def __call__(
        self, crops: Crops, digests: Sequence[bytes], views: Sequence[str], dtype: npt.DTypeLike
    ) -> dict[str, Embeddings]:
        """Embed crops (n, h, w, 3) of images with these ``digests``; rows (n, d) by view."""
        return self.start(self.prepare(crops, digests, views), dtype)()

    def prepare(self, crops: Crops, digests: Sequence[bytes], views: Sequence[str]) -> Prepared:
        """Return a batch that `start` takes; safe in any thread.

        Parameters
        ----------
        crops : ndarray of shape (n, h, w, 3), uint8
            The cropped images.
        digests : sequence of n bytes
            sha256 of the image files.
        """
        words = None
        if "rand" in views:
            _, height, width, channels = crops.shape
            drawn = noise_words((channels, height, width), self._settings, digests)
            words = self._pinned(torch.from_numpy(drawn))
        return Prepared(self._pinned(torch.from_numpy(crops)), digests, tuple(views), words)

    @torch.inference_mode()
    def start(self, batch: Prepared, dtype: npt.DTypeLike) -> Finish:
        """Start embedding a batch.

        Returns
        -------
        callable
            Waits for the result: arrays (n, d) of ``dtype`` by view.
        """
        parts: list[dict[str, _Transfer]] = []
        done = 0
        while done < len(batch):
            part = slice(done, done + self.rows)
            try:
                parts.append(self._run(batch, part))
                done = part.stop
                continue
            except torch.OutOfMemoryError:
                pass  # halved below: the handler's traceback still holds the tensors
            self._halve()
        return lambda: {
            view: np.concatenate([part[view].wait() for part in parts]).astype(dtype, copy=False)
            for view in batch.views
        }

    def _pinned(self, tensor: Tensor) -> Tensor:
        """Return the tensor in memory from which a GPU copies while the CPU goes on."""
        return tensor.pin_memory() if self._on_gpu else tensor

    def _on_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._encoder.device, non_blocking=self._on_gpu)

    def _run(self, batch: Prepared, part: slice) -> dict[str, _Transfer]:
        """Copy a part of the batch to the device, make its views, embed them."""
        crops = self._on_device(batch.crops[part])
        words = None if batch.words is None else self._on_device(batch.words[part])
        images = crops.permute(0, 3, 1, 2).float().div_(255.0)
        views = frequency_views(images, batch.views, self._settings, batch.digests[part], words)
        return {view: _Transfer(self._embed(pixels)) for view, pixels in views.items()}

    def _embed(self, images: Tensor) -> Tensor:
        """Embed at most `rows` images; on the CPU exactly as many, padded with black ones."""
        n = len(images)
        if self.is_thread_parallel and n < self.rows:
            images = torch.cat([images, images.new_zeros(self.rows - n, *images.shape[1:])])
        return self._encoder.embed(images)[:n]

    def _halve(self) -> None:
        if self.rows == 1:
            raise ModelError(
                "the accelerator's memory does not hold one image; use a smaller model, "
                "precision: float16, or runtime.device: cpu"
            )
        self.rows //= 2
        if self._on_gpu:
            torch.cuda.empty_cache()


class _Transfer:
    """Embeddings on their way from the device: a GPU copies them into pinned memory when they are ready."""

    def __init__(self, rows: Tensor) -> None:
        self._arrived: torch.cuda.Event | None = None
        if rows.device.type == "cuda":
            self._rows = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
            self._rows.copy_(rows, non_blocking=True)
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()
        else:
            self._rows = rows

    def wait(self) -> Embeddings:
        """Return the rows (n, d) once they have arrived."""
        if self._arrived is not None:
            self._arrived.synchronize()
        rows: Embeddings = self._rows.cpu().numpy()
        return rows
