"""Crops in, embeddings of every wanted view out: the step between decoding and the store.

On the CPU every forward pass has the same 16 rows (the last one padded) and one thread; parallelism is over passes.
Measured here: vision transformers give the same bits whatever the batch, convolutional networks (oneDNN) only at a
fixed batch and thread count. So an image's embedding is a function of the image alone, and a resumed, extended or
differently parallel run ends with the same bytes. On an accelerator the batch is the user's, halved when memory runs
out.

Three steps, so that an accelerator never waits: `prepare` (any thread: noise, pinned memory), `start` (one thread: puts
copies and kernels into the device's queue, and returns at once), and what `start` returns (waits for the rows). On the
CPU `start` does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.encoders.normalised_views import NormalisedViews
from pipeline.errors import ModelError
from pipeline.method.frequency_views import ViewSettings, noise_words

if TYPE_CHECKING:
    from pipeline.encoders.image_encoder import ImageEncoder

CPU_ROWS = 16

Crops = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.floating]
Finish = Callable[[], dict[str, Rows]]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A batch on its way to the device: crops (n, h, w, 3) uint8, their images' digests, the words of their noise."""

    crops: Tensor
    digests: Sequence[bytes]
    views: tuple[str, ...]
    words: Tensor | None

    def __len__(self) -> int:
        return len(self.crops)


class ViewEmbedder:
    """Embeds batches of crops (n, h, w, 3) uint8 in several views; safe to call from several threads on the CPU."""

    def __init__(
        self, encoder: ImageEncoder, settings: ViewSettings, *, device: torch.device, rows: int
    ) -> None:
        self._encoder = encoder
        self._settings = settings
        self._device = device
        self._on_cpu = device.type == "cpu"
        self._fixed = self._on_cpu or encoder.compiled
        self._rows = CPU_ROWS if self._on_cpu else rows
        self._make_views = NormalisedViews(encoder.preprocessing, settings, device)

    @property
    def rows(self) -> int:
        """How many images one forward pass takes."""
        return self._rows

    @property
    def is_thread_parallel(self) -> bool:
        """Whether several threads should call it at once (the CPU) or one thread feed it (an accelerator)."""
        return self._on_cpu

    def __call__(
        self, crops: Crops, digests: Sequence[bytes], views: Sequence[str], dtype: npt.DTypeLike
    ) -> dict[str, Rows]:
        """Return one (n, d) array of ``dtype`` per view for crops (n, h, w, 3) of images with these ``digests``."""
        return self.start(self.prepare(crops, digests, views), dtype)()

    def prepare(self, crops: Crops, digests: Sequence[bytes], views: Sequence[str]) -> Prepared:
        """Return a batch ready for `start`; safe in any thread."""
        words = None
        if "rand" in views:
            _, height, width, channels = crops.shape
            shape = (channels, height, width)
            words = self._outbound(torch.from_numpy(noise_words(shape, self._settings, digests)))
        return Prepared(self._outbound(torch.from_numpy(crops)), digests, tuple(views), words)

    def _outbound(self, tensor: Tensor) -> Tensor:
        """Return the tensor in memory from which a GPU copies while the CPU goes on."""
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def _on_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, non_blocking=self._device.type == "cuda")

    @torch.inference_mode()
    def start(self, batch: Prepared, dtype: npt.DTypeLike) -> Finish:
        """Set a batch to work; return a function that waits for its (n, d) rows of ``dtype`` per view."""
        parts: list[dict[str, _Rows]] = []
        done = 0
        while done < len(batch):
            part = slice(done, done + self._rows)
            try:
                parts.append(self._run(batch, part))
                done = part.stop
            except torch.OutOfMemoryError:
                exhausted = (
                    True  # halved after the handler, whose traceback still holds the tensors
                )
            else:
                exhausted = False
            if exhausted:
                self._halve()
        return lambda: {
            view: np.concatenate([part[view].wait() for part in parts]).astype(dtype, copy=False)
            for view in batch.views
        }

    def _run(self, batch: Prepared, part: slice) -> dict[str, _Rows]:
        """Copy a part of the batch to the device, make its views, embed them."""
        crops, words = self._on_device(batch.crops[part]), None
        if batch.words is not None:
            words = self._on_device(batch.words[part])
        made = self._make_views(crops, batch.digests[part], batch.views, words)
        return {view: _Rows(self._embed(images)) for view, images in made.items()}

    def _embed(self, images: Tensor) -> Tensor:
        """Embed at most `rows` images; where a pass has fixed rows, padded with grey to as many."""
        n = len(images)
        padding = self._rows - n if self._fixed else 0
        if padding:
            images = torch.cat([images, images.new_zeros(padding, *images.shape[1:])])
        return self._encoder.embed_normalised(images)[:n]

    def _halve(self) -> None:
        if self._rows == 1:
            raise ModelError(
                "the accelerator's memory does not hold one image; use a smaller model, "
                "precision: float16, or runtime.device: cpu"
            )
        self._rows //= 2
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


class _Rows:
    """Embeddings on their way from the device: a GPU copies them into pinned memory as soon as it has them."""

    def __init__(self, rows: Tensor) -> None:
        self._arrived: torch.cuda.Event | None = None
        if rows.device.type == "cuda":
            self._rows = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
            self._rows.copy_(rows, non_blocking=True)
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()
        else:
            self._rows = rows

    def wait(self) -> Rows:
        """Return the rows (n, d) once they are there."""
        if self._arrived is not None:
            self._arrived.synchronize()
        rows: Rows = self._rows.cpu().numpy()
        return rows
