"""A frozen backbone described by plain values, and the function that builds it.

Importing this module imports neither torch nor timm nor open_clip: a description costs nothing.
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


def build_image_encoder(backbone: Backbone, device: str) -> ImageEncoder:
    """Build the image tower of a timm or open_clip model on a device, see `device.choose_device`."""
    from pipeline.encoders import clip_encoder, timm_encoder

    build = clip_encoder.build if backbone.library == "open_clip" else timm_encoder.build
    return build(backbone, device)
