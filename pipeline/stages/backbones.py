"""Build the backbone that params.yaml describes: the one place where a `Model` section becomes an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.params import Model

if TYPE_CHECKING:
    import torch

    from pipeline.encoders.clip_encoder import ClipEncoder
    from pipeline.encoders.image_encoder import ImageEncoder


def build_clip(spec: Model, device: torch.device) -> ClipEncoder:
    """Build an open_clip model, both towers."""
    from pipeline.encoders import clip_encoder

    return clip_encoder.build(
        spec.name,
        origin=Path(spec.origin),
        pretrained=spec.pretrained or None,
        quick_gelu=spec.quick_gelu,
        preprocessing_override=spec.preprocessing,
        device=device,
        precision=spec.precision,
    )


def build_image_encoder(spec: Model, device: torch.device) -> ImageEncoder:
    """Build the image tower of a timm or open_clip model."""
    if spec.library == "open_clip":
        return build_clip(spec, device)
    from pipeline.encoders import timm_encoder

    return timm_encoder.build(
        spec.name,
        origin=Path(spec.origin),
        kwargs=spec.kwargs,
        preprocessing_override=spec.preprocessing,
        device=device,
        precision=spec.precision,
    )
