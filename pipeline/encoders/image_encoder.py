"""Embed image crops with a frozen model."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from pipeline.encoders.checkpoints import state_fingerprint
from pipeline.encoders.device import check_on_cpu, fast_precision
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import ModelError, one_line


class ImageEncoder:
    """A frozen module with its preprocessing.

    No operation mixes the images of a batch, so an embedding does not depend on its neighbours. The ``module`` is
    frozen, moved to the device and kept in float32. ``precision`` applies to the forward pass (autocast); see
    `fast_precision` for ``auto``. ``forward`` maps normalised images (n, 3, h, w) to embeddings (n, d).
    ``description`` is stored as provenance: JSON values that do not depend on this machine. ``width`` is d,
    ``fingerprint`` the SHA-256 of the weights.
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
    ) -> None:
        precision = fast_precision(device) if precision == "auto" else precision
        if device.type == "cpu" and precision != "float32":
            check_on_cpu(precision)
        module.float().eval().requires_grad_(requires_grad=False)
        self.fingerprint = state_fingerprint(module)
        self.module = module.to(device)
        if device.type == "cuda":  # tensor cores are fastest at convolutions in this layout
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.preprocessing = preprocessing
        self.description = dict(description)
        self.device = device
        self.precision = precision
        self._forward = forward
        if device.type == "cuda" and precision == "float32":
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False  # cuDNN's default: 10 bits of mantissa in "float32" convolutions
            torch.backends.cudnn.benchmark = False  # its choice of algorithm differs between runs
        self._mean = torch.tensor(preprocessing.mean, device=device).reshape(1, 3, 1, 1)
        self._std = torch.tensor(preprocessing.std, device=device).reshape(1, 3, 1, 1)
        self.width = self._probe()

    def compile(self) -> None:
        """Compile the image tower by torch.compile: faster on a GPU, but with different last bits."""
        self._forward = torch.compile(self._forward)

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Embed images (n, 3, h, w) in [0, 1] in inference mode; (n, d) float32, not normalised."""
        return self.run(self._forward, self.normalise(images))

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        """Standardise images (n, 3, h, w) in [0, 1] by the model's mean and standard deviation."""
        # The same layout whatever the input's, because rounding in convolutions depends on it.
        layout = torch.channels_last if self.device.type == "cuda" else torch.contiguous_format
        return ((images - self._mean) / self._std).contiguous(memory_format=layout)

    def run(self, function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        """Apply ``function`` in inference mode at the encoder's precision; return float32."""
        with torch.inference_mode(), self.autocast():
            outputs = function(inputs)
        # A clone made outside inference mode is an ordinary tensor, which callers may change in place.
        return outputs.clone().float()

    def differentiable(self, images: torch.Tensor) -> torch.Tensor:
        """Embed as `embed` does, but keep gradients with respect to the images.

        The last bits may differ, because torch may choose other kernels.
        """
        with self.autocast():
            return self._forward(self.normalise(images)).float()

    def autocast(self) -> torch.autocast:
        """Return a context manager that applies the encoder's precision."""
        return torch.autocast(self.device.type, getattr(torch, self.precision), enabled=self.precision != "float32")

    def _probe(self) -> int:
        """Embed a black image and return the width d; raise ModelError if the settings do not fit the model."""
        size = (self.preprocessing.height, self.preprocessing.width)
        name = self.description.get("name")
        try:
            features = self.run(self._forward, torch.zeros((1, 3, *size), device=self.device))
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"model {name!r} does not fit in the memory of {self.device}; choose another device"
            ) from error
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise ModelError(
                f"model {name!r} cannot embed {size[0]} x {size[1]} images in {self.precision} on {self.device} "
                f"({one_line(error)[:200]}); check its arguments, preprocessing.height and preprocessing.width"
            ) from error
        if features.ndim != 2:
            raise ModelError(
                f"model {name!r} gives features of shape {tuple(features.shape)}, "
                "not one vector per image; set its global_pool argument"
            )
        return int(features.shape[1])
