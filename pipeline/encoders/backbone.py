"""A frozen backbone described by plain values, and the function that builds it.

Importing this module imports neither torch nor timm nor open_clip: a description costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from pipeline.validated_yaml import Section

if TYPE_CHECKING:
    import torch

    from pipeline.encoders.clip_encoder import ClipEncoder
    from pipeline.encoders.image_encoder import ImageEncoder


class Backbone(Section):
    """Which frozen model embeds the images, and how its embeddings are stored."""

    library: Literal["timm", "open_clip", "imported"]
    # as the library calls it; for `imported`, what computed the file
    name: Annotated[str, StringConstraints(min_length=1)]
    # A checkpoint file; a folder that holds one (and, for an architecture that open_clip does not know, its
    # open_clip_config.json); an empty folder, into which the hub's weights go; for `imported`, the .npy/.npz itself.
    origin: str
    pretrained: str = ""  # open_clip's tag, e.g. openai; timm's is part of the name
    kwargs: dict[str, Any] = Field(default_factory=dict)  # constructor arguments, timm
    quick_gelu: Literal["auto"] | bool = "auto"  # open_clip: its activation, see `clip_encoder.build`
    preprocessing: dict[str, Any] = Field(default_factory=dict)  # fields of `Preprocessing` that differ from its own
    # auto: half precision on an accelerator that is fast in it, float32 elsewhere; stores record which it was
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    stored_as: Literal["float16", "float32"] = "float16"


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
