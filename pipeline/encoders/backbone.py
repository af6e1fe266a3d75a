"""A frozen backbone described by plain values, and the function that builds it.

Importing this module imports neither torch nor timm nor open_clip: a description costs nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from pipeline.encoders.clip_encoder import ClipEncoder
    from pipeline.encoders.image_encoder import ImageEncoder


@dataclass(frozen=True)
class Backbone:
    """Which frozen model embeds the images, and how its embeddings are stored."""

    library: str  # timm or open_clip
    name: str  # name of the model in that library
    origin: str  # a checkpoint file, or a folder that holds one; a folder without one means the hub's weights
    # tag of open_clip's weights, such as ``openai``; timm's tag is part of the name
    pretrained: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    # auto, True or False: activation of an open_clip model, see `clip_encoder.build`
    quick_gelu: str | bool = "auto"
    # fields of `Preprocessing` that differ from the model's own
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "float32"  # auto, float32, bfloat16 or float16: of the forward pass
    stored_as: str = "float16"  # float16 or float32: of the stored embeddings

    def absolute(self) -> Backbone:
        """Return the same backbone with the absolute path of its origin, for another process."""
        return dataclasses.replace(self, origin=str(Path(self.origin).absolute()))


def build_clip(backbone: Backbone, device: str | torch.device) -> ClipEncoder:
    """Build an open_clip model, image and text tower, on a device or the name of one, see `device.choose_device`."""
    from pipeline.encoders import clip_encoder
    from pipeline.encoders.device import choose_device

    return clip_encoder.build(backbone, choose_device(str(device)))


def build_image_encoder(backbone: Backbone, device: str | torch.device) -> ImageEncoder:
    """Build the image tower of a timm or open_clip model; parameters as in `build_clip`."""
    if backbone.library == "open_clip":
        return build_clip(backbone, device)
    from pipeline.encoders import timm_encoder
    from pipeline.encoders.device import choose_device

    return timm_encoder.build(backbone, choose_device(str(device)))
