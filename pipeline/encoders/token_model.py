"""An encoder taken apart: pixels to tokens, tokens to an embedding; and its forward pass with gradients.

`ImageEncoder` runs in inference mode, which `embed` wants and refinement cannot use; it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipeline.encoders.image_encoder import PRECISIONS, ImageEncoder
from pipeline.errors import ModelError


def normalised(encoder: ImageEncoder, images: Tensor) -> Tensor:
    """Return ``images`` (n, 3, h, w) in [0, 1] as the module expects them, as `ImageEncoder.embed` does."""
    mean, std = (
        torch.tensor(levels, device=images.device).reshape(1, 3, 1, 1)
        for levels in (encoder.preprocessing.mean, encoder.preprocessing.std)
    )
    return (images - mean) / std


def differentiable(encoder: ImageEncoder) -> Callable[[Tensor], Tensor]:
    """Return the encoder as a function of images (n, 3, h, w) to embeddings (n, d), gradients kept.

    The same arithmetic as `ImageEncoder.embed` (last bits apart: torch may take another path); the weights are frozen.
    """
    module: Any = encoder.module
    is_clip = hasattr(module, "encode_image")
    forward: Callable[[Tensor], Tensor] = module.encode_image if is_clip else module
    dtype = PRECISIONS[encoder.precision]

    def embed(images: Tensor) -> Tensor:
        mixed = torch.autocast(encoder.device.type, dtype, enabled=dtype != torch.float32)
        with mixed:
            return forward(normalised(encoder, images)).float()

    return embed


class TokenModel:
    """A vision transformer in two halves: tokens of its last block, and the pooling that makes an embedding of them."""

    def __init__(self, encoder: ImageEncoder) -> None:
        """Take ``encoder`` apart; a model that has no tokens is a `ModelError`."""
        self._encoder = encoder
        self._module: Any = encoder.module
        if not self._has_tokens():
            raise ModelError(
                f"refinement.mutual_attention: model {encoder.description.get('name')!r} has no patch tokens; "
                "set it to false, or choose a vision transformer of timm as `vision`"
            )

    def tokens(self, images: Tensor) -> Tensor:
        """Return the tokens (n, L, d) of images (n, 3, h, w) in [0, 1]: patches and, where there are, class tokens."""
        return self._encoder.run(self._module.forward_features, normalised(self._encoder, images))

    def pool(self, tokens: Tensor) -> Tensor:
        """Return the embeddings (n, d) of tokens (n, L, d): the model's own pooling and what follows it."""
        return self._encoder.run(self._module.forward_head, tokens)

    def _has_tokens(self) -> bool:
        """Try a black image: tokens of rank three, two or more, that pool to the model's own embedding."""
        if not all(hasattr(self._module, half) for half in ("forward_features", "forward_head")):
            return False
        size = (self._encoder.preprocessing.height, self._encoder.preprocessing.width)
        black = torch.zeros((1, 3, *size), device=self._encoder.device)
        try:
            tokens = self.tokens(black)
            if tokens.ndim != 3 or tokens.shape[1] < 2:
                return False
            return torch.allclose(self.pool(tokens), self._encoder.embed(black), atol=1e-2)
        except (AttributeError, RuntimeError, TypeError, ValueError):  # halves of another make
            return False
