"""Crops and pseudo-labels in, embeddings of refined views out: what stands beside `view_embedder` when asked for.

As there, a pass on the CPU has 16 rows (the last one padded) and one thread, so that a rerun with other workers ends
with the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.token_model import TokenModel, differentiable
from pipeline.encoders.view_embedder import CPU_ROWS, Crops
from pipeline.errors import ModelError
from pipeline.method.adversarial_refinement import Ascent, SourceBranch, ascend
from pipeline.method.frequency_views import ViewSettings, frequency_views
from pipeline.method.mutual_attention import mutual_attention


class ViewRefiner:
    """Refines batches of crops (n, h, w, 3) uint8; safe to call from several threads on the CPU."""

    def __init__(
        self,
        encoder: ImageEncoder,
        settings: ViewSettings,
        ascent: Ascent,
        *,
        attention: bool,
        rows: int,
    ) -> None:
        self._encoder = encoder
        self._forward = differentiable(encoder)
        self._tokens = TokenModel(encoder) if attention else None
        self._settings = settings
        self._ascent = ascent
        self.is_thread_parallel = encoder.device.type == "cpu"
        self.rows = CPU_ROWS if self.is_thread_parallel else rows

    def __call__(
        self,
        crops: Crops,
        digests: Sequence[bytes],
        views: Sequence[str],
        *,
        branch: SourceBranch | None,
        places: npt.NDArray[np.intp],
        dtype: npt.DTypeLike,
    ) -> dict[str, npt.NDArray[np.floating]]:
        """Return one (n, d) array of ``dtype`` per view for at most `rows` crops of images with these ``digests``.

        branch: the source's, over the task's classes; needed if there are steps. places: (n,), the pseudo-labels,
        by their places among those classes.
        """
        n = len(crops)
        index = np.arange(self.rows if self.is_thread_parallel else n).clip(max=n - 1)
        images = torch.from_numpy(crops[index]).to(self._encoder.device)
        images = images.permute(0, 3, 1, 2).float().div_(255.0)
        made = frequency_views(
            images, ("original", *views), self._settings, [digests[i] for i in index]
        )
        labels = torch.from_numpy(places[index])
        embedded = {}
        for view in views:
            rows = self._embed(made["original"], made[view], branch, labels)
            embedded[view] = rows[:n].cpu().numpy().astype(dtype)
        return embedded

    def _embed(
        self, original: Tensor, view: Tensor, branch: SourceBranch | None, labels: Tensor
    ) -> Tensor:
        """Refine and embed; where an accelerator's memory runs out, in halves."""
        try:
            return self._refined(original, view, branch, labels)
        except torch.OutOfMemoryError:
            if len(view) == 1:
                raise ModelError(
                    "the accelerator's memory does not hold one image and its gradient; use a smaller model, "
                    "precision: float16, or runtime.device: cpu"
                ) from None
        halves = zip(*(t.tensor_split(2) for t in (original, view, labels)), strict=True)
        return torch.cat([self._embed(o, v, branch, y) for o, v, y in halves])

    def _refined(
        self, original: Tensor, view: Tensor, branch: SourceBranch | None, labels: Tensor
    ) -> Tensor:
        if branch is not None:
            view = ascend(view, self._forward, lambda x: branch.log_odds(x, labels), self._ascent)
        if self._tokens is None:
            return self._encoder.embed(view)
        shared = mutual_attention(self._tokens.tokens(original), self._tokens.tokens(view))
        return self._tokens.pool(shared)
