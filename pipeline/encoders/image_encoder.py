"""What an encoder is to the rest of the pipeline: crops in [0, 1] in, embeddings out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pipeline.encoders.checkpoints import state_fingerprint
from pipeline.encoders.device import keep_float32_exact
from pipeline.encoders.low_precision import check_on_cpu
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipeline.encoders.preprocessing import Preprocessing

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class ImageEncoder:
    """A frozen module with its preprocessing.

    ``width``: d, the length of an embedding. ``fingerprint``: SHA-256 of the weights.
    ``description``: what to keep as provenance beside fingerprint, preprocessing and ``precision``;
    plain JSON, nothing of this machine. No operation mixes images of a batch, so an embedding does
    not depend on its neighbours.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        forward: Callable[[torch.Tensor], torch.Tensor],
        *,
        preprocessing: Preprocessing,
        description: Mapping[str, Any],
        device: torch.device,
        precision: str = "float32",
        compiled: bool = False,
    ) -> None:
        """Freeze ``module``; its ``forward`` maps normalised (n, 3, h, w) to (n, d).

        ``compiled``: let `torch.compile` fuse its operations. It rounds elsewhere, so it is part of the description.
        """
        if precision not in PRECISIONS:
            raise ModelError(f"precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
        if device.type == "cpu" and precision != "float32":
            check_on_cpu(precision)
        module.float().eval().requires_grad_(requires_grad=False)
        self.fingerprint = state_fingerprint(module)
        self.module = module.to(device)
        if device.type == "cuda":  # the layout in which tensor cores take convolutions
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.preprocessing = preprocessing
        self.description = {**description, "compiled": True} if compiled else dict(description)
        self.device = device
        self.precision = precision
        self.compiled = compiled
        # One shape, the fixed rows of a pass: nothing is compiled again in the middle of a run.
        self._forward = torch.compile(forward, dynamic=False) if compiled else forward
        if device.type == "cuda" and precision == "float32":
            keep_float32_exact()
        self._mean = torch.tensor(preprocessing.mean, device=device).reshape(1, 3, 1, 1)
        self._std = torch.tensor(preprocessing.std, device=device).reshape(1, 3, 1, 1)
        self.width = self._probe()

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Embed ``images`` (n, 3, h, w), float32 in [0, 1], as float32 (n, d), not L2-normalised.

        ``images`` must lie on the encoder's device; the result does too.
        """
        expected = (3, self.preprocessing.height, self.preprocessing.width)
        if images.dtype != torch.float32 or tuple(images.shape[1:]) != expected:
            raise ValueError(
                f"expected float32 (n, {expected}), got {images.dtype} {tuple(images.shape)}"
            )
        if len(images) == 0:
            return images.new_empty((0, self.width))
        return self.embed_normalised((images - self._mean) / self._std)

    def embed_normalised(self, images: torch.Tensor) -> torch.Tensor:
        """As `embed`, for ``images`` that mean and standard deviation are already taken out of."""
        if self.device.type == "cuda":
            images = images.contiguous(memory_format=torch.channels_last)
        return self.run(self._forward, images)

    def run(
        self, function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor
    ) -> torch.Tensor:
        """Apply ``function`` in inference mode at the encoder's precision; give float32."""
        autocast = torch.autocast(
            self.device.type, PRECISIONS[self.precision], enabled=self.precision != "float32"
        )
        with torch.inference_mode(), autocast:
            outputs = function(inputs)
        # Outside inference mode, a clone is an ordinary tensor, which callers may change in place.
        return outputs.clone().float()

    def _probe(self) -> int:
        """Embed a black image: the width d, or a readable error where the settings disagree."""
        size = (self.preprocessing.height, self.preprocessing.width)
        name = self.description.get("name")
        try:
            features = self.run(self._forward, torch.zeros((1, 3, *size), device=self.device))
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"model {name!r} does not fit in the memory of {self.device}; choose another device"
            ) from error
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"model {name!r} cannot embed {size[0]} x {size[1]} images in {self.precision} on "
                f"{self.device} ({reason}); check its arguments, preprocessing.height "
                "and preprocessing.width"
            ) from error
        if features.ndim != 2:
            raise ModelError(
                f"model {name!r} gives features of shape {tuple(features.shape)}, "
                "not one vector per image; set its global_pool argument"
            )
        return int(features.shape[1])
