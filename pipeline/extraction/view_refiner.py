"""Refine views of crops against pseudo-labels, and embed them.

As in `image_embedder`, a pass on the CPU has 16 rows (the last one padded) and one thread, so that a
rerun with other workers ends with the same bytes.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.errors import ModelError
from pipeline.extraction.image_embedder import CPU_ROWS
from pipeline.extraction.images import Crops
from pipeline.method.adversarial_refinement import Ascent, SourceBranch, ascend
from pipeline.method.frequency_views import ViewSettings, frequency_views


class ViewRefiner:
    """Refines and embeds batches of crops; on the CPU several threads may call it at once.

    With ``attention``, tokens of a view and of the original attend to each other before pooling. ``rows`` are the
    images of a pass on an accelerator.
    """

    def __init__(
        self, encoder: ImageEncoder, settings: ViewSettings, ascent: Ascent, *, attention: bool, rows: int
    ) -> None:
        self._encoder, self._settings, self._ascent = encoder, settings, ascent
        self._tokens = TokenModel(encoder) if attention else None
        self.is_thread_parallel = encoder.device.type == "cpu"
        self.rows = CPU_ROWS if self.is_thread_parallel else rows

    def __call__(
        self,
        crops: Crops,
        digests: Sequence[bytes],
        views: Sequence[str],
        *,
        branch: SourceBranch | None,
        labels: npt.NDArray[np.intp],
        dtype: npt.DTypeLike,
    ) -> dict[str, npt.NDArray[np.floating]]:
        """Return the embeddings (n, d) of the refined ``views`` of at most `rows` crops (n, h, w, 3).

        ``digests`` are the sha256 of the image files. With steps, ``branch`` is the source classifier over the task's
        classes and ``labels`` are pseudo-labels as `SourceBranch.log_odds` takes them.
        """
        n = len(crops)
        index = np.arange(self.rows if self.is_thread_parallel else n).clip(max=n - 1)
        images = torch.from_numpy(crops[index]).to(self._encoder.device)
        images = images.permute(0, 3, 1, 2).float().div_(255.0)
        pixels = frequency_views(images, ("original", *views), self._settings, [digests[i] for i in index])
        padded = torch.from_numpy(labels[index])
        embedded = {}
        for view in views:
            rows = self._embed(pixels["original"], pixels[view], branch, padded)
            embedded[view] = rows[:n].cpu().numpy().astype(dtype)
        return embedded

    def _embed(self, original: Tensor, view: Tensor, branch: SourceBranch | None, labels: Tensor) -> Tensor:
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

    def _refined(self, original: Tensor, view: Tensor, branch: SourceBranch | None, labels: Tensor) -> Tensor:
        if branch is not None:
            embed = self._encoder.differentiable
            view = ascend(view, embed, lambda x: branch.log_odds(x, labels), self._ascent)
        if self._tokens is None:
            return self._encoder.embed(view)
        shared = mutual_attention(self._tokens.tokens(original), self._tokens.tokens(view))
        return self._tokens.pool(shared)


class TokenModel:
    """The tokens of a timm vision transformer's last block, and the pooling that makes an embedding of them."""

    def __init__(self, encoder: ImageEncoder) -> None:
        self._encoder = encoder
        self._module: Any = encoder.module
        if not self._has_tokens():
            raise ModelError(
                f"refinement.mutual_attention: model {encoder.description.get('name')!r} has no patch tokens; "
                "set it to false, or choose a vision transformer of timm as `vision`"
            )

    def tokens(self, images: Tensor) -> Tensor:
        """Return the tokens (n, L, d) of images (n, 3, h, w) in [0, 1]: patches and any class tokens."""
        return self._encoder.run(self._module.forward_features, self._encoder.normalise(images))

    def pool(self, tokens: Tensor) -> Tensor:
        """Return the embeddings (n, d) of tokens (n, L, d): the model's own pooling and what follows."""
        return self._encoder.run(self._module.forward_head, tokens)

    def _has_tokens(self) -> bool:
        """Try a black image: at least two tokens, which pool to the model's own embedding."""
        if not all(hasattr(self._module, half) for half in ("forward_features", "forward_head")):
            return False
        size = (self._encoder.preprocessing.height, self._encoder.preprocessing.width)
        black = torch.zeros((1, 3, *size), device=self._encoder.device)
        try:
            tokens = self.tokens(black)
            if tokens.ndim != 3 or tokens.shape[1] < 2:
                return False
            return torch.allclose(self.pool(tokens), self._encoder.embed(black), atol=1e-2)
        except (AttributeError, RuntimeError, TypeError, ValueError):  # other models' halves differ
            return False


def attend(queries: Tensor, keys: Tensor) -> Tensor:
    """Return softmax(q kᵀ / √d) k, (n, L, d), of queries (n, L, d) and keys (n, M, d), image by image."""
    likeness = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1])
    return torch.softmax(likeness, dim=-1) @ keys


def mutual_attention(original: Tensor, view: Tensor) -> Tensor:
    """Return the tokens (n, L, d) that the original's and the view's tokens (n, L, d) agree on.

    The paper's text asks for it ("stresses the correlated features while suppressing other unrelated information",
    below eq. (15)) without a formula; its algorithm and the released code do without. Ours has no parameters, as
    nothing is trained: tokens are queries, keys and values themselves. Each token of one picture becomes a mean of the
    other's tokens, weighted by likeness; what the two share survives, what only one of them has is averaged away.

    The mean of both directions, original to view and view to original, position by position: symmetric in the two.
    """
    return (attend(original, view) + attend(view, original)) / 2
