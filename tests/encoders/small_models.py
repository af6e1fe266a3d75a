"""Models with a few thousand random weights."""

import json
from typing import Any

import open_clip
import pytest
import timm
import torch

from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import ModelError

VIT = "vit_tiny_patch16_224"
VIT_KWARGS: dict[str, Any] = {"img_size": 32, "patch_size": 4, "embed_dim": 48, "depth": 2, "num_heads": 3}
CLIP_CONFIG: dict[str, Any] = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 48, "patch_size": 8, "head_width": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
ON_CPU: dict[str, Any] = {
    "preprocessing": Preprocessing(32, 32, 1.0, "shortest", "bicubic", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4)),
    "device": torch.device("cpu"),
}


def vit(*, num_classes=0, **changes):
    torch.manual_seed(0)
    model = timm.create_model(VIT, num_classes=num_classes, **{**VIT_KWARGS, **changes})
    for parameter in model.parameters():  # timm starts biases and the class token near zero
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def clip(**changes):
    torch.manual_seed(0)
    model = open_clip.CLIP(**{**json.loads(json.dumps(CLIP_CONFIG)), **changes})
    # Frozen like an encoder: for trainable weights torch's attention takes another path with different last bits.
    return model.eval().requires_grad_(requires_grad=False)


def encoder_of(module):
    return ImageEncoder(module, module, description={"library": "timm", "name": "tiny"}, **ON_CPU)


def pictures(n, size=32):
    return torch.rand((n, 3, size, size), generator=torch.Generator().manual_seed(7))


def assert_model_error(expected, build, *args, **changes):
    """Check that building a model raises a one-line ModelError; return its message."""
    with pytest.raises(ModelError, match=expected) as error:
        build(*args, **changes)
    assert "\n" not in str(error.value)
    return str(error.value)
