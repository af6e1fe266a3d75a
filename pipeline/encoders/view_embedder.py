"""Crops in, embeddings of every wanted view out: the step between decoding and the store.

On the CPU every forward pass has the same 16 rows (the last one padded) and one thread; parallelism is over passes.
Measured here: vision transformers give the same bits whatever the batch, convolutional networks (oneDNN) only at a
fixed batch and thread count. So an image's embedding is a function of the image alone, and a resumed, extended or
differently parallel run ends with the same bytes. On an accelerator the batch is the user's, halved when memory runs
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from pipeline.errors import ModelError
from pipeline.method.frequency_views import ViewSettings, frequency_views

if TYPE_CHECKING:
    from pipeline.encoders.image_encoder import ImageEncoder

CPU_ROWS = 16

Crops = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.floating]


class ViewEmbedder:
    """Embeds batches of crops (n, h, w, 3) uint8 in several views; safe to call from several threads on the CPU."""

    def __init__(
        self, encoder: ImageEncoder, settings: ViewSettings, *, device: torch.device, rows: int
    ) -> None:
        self._encoder = encoder
        self._settings = settings
        self._device = device
        self._fixed = device.type == "cpu"
        self._rows = CPU_ROWS if self._fixed else rows

    @property
    def rows(self) -> int:
        """How many images one forward pass takes."""
        return self._rows

    @property
    def is_thread_parallel(self) -> bool:
        """Whether several threads should call it at once (the CPU) or one thread feed it (an accelerator)."""
        return self._fixed

    @torch.inference_mode()
    def __call__(
        self, crops: Crops, digests: Sequence[bytes], views: Sequence[str], dtype: npt.DTypeLike
    ) -> dict[str, Rows]:
        """Return one (n, d) array of ``dtype`` per view for crops (n, h, w, 3) of images with these ``digests``."""
        if self._fixed:
            return self._run(crops, digests, views, dtype)
        parts: list[dict[str, Rows]] = []
        done = 0
        while done < len(crops):
            part = slice(done, done + self._rows)
            try:
                parts.append(self._run(crops[part], digests[part], views, dtype))
                done = part.stop
            except torch.OutOfMemoryError:
                exhausted = (
                    True  # halved after the handler, whose traceback still holds the tensors
                )
            else:
                exhausted = False
            if exhausted:
                self._halve()
        return {view: np.concatenate([part[view] for part in parts]) for view in views}

    def _run(
        self, crops: Crops, digests: Sequence[bytes], views: Sequence[str], dtype: npt.DTypeLike
    ) -> dict[str, Rows]:
        """Copy, make the views and embed, all on the device."""
        pixels = torch.from_numpy(crops)
        if self._device.type == "cuda":
            pixels = pixels.pin_memory().to(self._device, non_blocking=True)
        else:
            pixels = pixels.to(self._device)
        images = pixels.permute(0, 3, 1, 2).float().div_(255.0)
        made = frequency_views(images, views, self._settings, digests)
        embed = self._embed_fixed if self._fixed else self._encoder.embed
        return {view: embed(images).cpu().numpy().astype(dtype) for view, images in made.items()}

    def _embed_fixed(self, images: torch.Tensor) -> torch.Tensor:
        """Embed in passes of exactly `CPU_ROWS` rows, the last one padded with black."""
        n = len(images)
        padding = -n % self._rows
        padded = (
            torch.cat([images, images.new_zeros(padding, *images.shape[1:])]) if padding else images
        )
        return torch.cat([self._encoder.embed(part) for part in torch.split(padded, self._rows)])[
            :n
        ]

    def _halve(self) -> None:
        if self._rows == 1:
            raise ModelError(
                "the accelerator's memory does not hold one image; use a smaller model, "
                "precision: float16, or runtime.device: cpu"
            )
        self._rows //= 2
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
