"""Describe a frozen backbone by plain values, and build it.

Importing this module imports neither torch nor timm nor open_clip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from pipeline.validated_yaml import Section

if TYPE_CHECKING:
    from pipeline.encoders.image_encoder import ImageEncoder


class Backbone(Section):
    """Which frozen model embeds the images, and how its embeddings are stored."""

    library: Literal["timm", "open_clip", "imported"]
    # the library's name of the model; for `imported`, the program or model that computed the file
    name: Annotated[str, StringConstraints(min_length=1)]
    # A checkpoint file, a folder with one (and an open_clip_config.json if open_clip does not know the architecture) or
    # an empty folder for the hub's weights. For `imported`, the .npy or .npz file itself.
    origin: str
    pretrained: str = ""  # open_clip's tag, e.g. openai; timm's is part of the name
    kwargs: dict[str, Any] = Field(default_factory=dict)  # timm: constructor arguments
    quick_gelu: Literal["auto"] | bool = "auto"  # open_clip: activation, see `clip_encoder.build`
    preprocessing: dict[str, Any] = Field(default_factory=dict)  # fields of `Preprocessing` to override
    # auto: half precision on accelerators that are fast at it, else float32; stores record which one was used
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    stored_as: Literal["float16", "float32"] = "float16"


def build_image_encoder(backbone: Backbone, device: str) -> ImageEncoder:
    """Build the image tower of a timm or open_clip model on a device; see `device.choose_device`."""
    from pipeline.encoders import clip_encoder, timm_encoder

    build = clip_encoder.build if backbone.library == "open_clip" else timm_encoder.build
    return build(backbone, device)
