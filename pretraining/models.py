"""Build, average and save the two models."""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import open_clip
import timm
import torch
from safetensors.torch import save_file
from torch import nn

CLIP_CONFIG = Path(__file__).parents[1] / "weights" / "digits" / "clip" / "open_clip_config.json"
# Relative to weights/digits, named as on the hubs.
FILES = {"vit": "vit/model.safetensors", "clip": "clip/open_clip_model.safetensors"}
VIT_NAME = "vit_tiny_patch16_224"
VIT_KWARGS: dict[str, Any] = {
    "img_size": 32,
    "patch_size": 4,
    "embed_dim": 128,
    "depth": 5,
    "num_heads": 4,
    "class_token": False,
    "global_pool": "avg",
}
VIT_SIZE = 32
CLIP_SIZE = 64
VIT_MEAN_STD = ((0.5,) * 3, (0.5,) * 3)
CLIP_MEAN_STD = (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)


def create_vit(classes: int) -> nn.Module:
    """Build a vision transformer, whose pooled features are the shipped embedding.

    With 0 `classes` it has no classifier, as shipped.
    """
    model: nn.Module = timm.create_model(VIT_NAME, num_classes=classes, **VIT_KWARGS)
    initialise_vit(model)
    return model


@torch.no_grad()
def initialise_vit(model: nn.Module) -> None:
    """Initialise a small transformer so that it learns at once, not only after hundreds of steps.

    timm's initialisation (all weights of deviation 0.02) suits wide models. In a small one, the embedding of a black
    patch (-1 in every pixel) would hide the position embeddings. Here a black patch is embedded as zero, positions are
    waves in both directions, and weights scale with the size of their layer.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    patches = model.patch_embed.proj
    patches.bias.copy_(patches.weight.sum((1, 2, 3)))
    side = VIT_KWARGS["img_size"] // VIT_KWARGS["patch_size"]
    model.pos_embed.copy_(0.5 * waves(side, VIT_KWARGS["embed_dim"]))
    if model.num_classes:
        nn.init.zeros_(model.head.weight)


def waves(side: int, width: int) -> torch.Tensor:
    """Return sines and cosines (1, side * side, width) of both coordinates at width / 4 frequencies."""
    axis = torch.arange(side).float()
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    count = width // 4
    frequency = math.pi / side * (torch.arange(count) / count * 5 + 0.5)
    angles = [coordinate.reshape(-1, 1) * frequency for coordinate in (x, y)]
    return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], dim=1).unsqueeze(0)


def create_clip() -> nn.Module:
    """Build the open_clip model that weights/digits/clip/open_clip_config.json describes."""
    model: nn.Module = open_clip.CLIP(**json.loads(CLIP_CONFIG.read_text()))
    return model


@cache
def _tokenizer() -> open_clip.SimpleTokenizer:
    """Build the tokenizer once, because reading its vocabulary takes half a second."""
    length = json.loads(CLIP_CONFIG.read_text())["text_cfg"]["context_length"]
    return open_clip.SimpleTokenizer(context_length=length)


def tokenize(captions: list[str]) -> torch.Tensor:
    """Return token numbers (n, context length)."""
    tokens: torch.Tensor = _tokenizer()(captions)
    return tokens


def as_input(grey: torch.Tensor, mean_std: tuple[Any, Any]) -> torch.Tensor:
    """Convert grey images (n, 1, h, w) in [0, 1] to a model's input: three channels, normalised."""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in mean_std)
    return (grey - mean) / std


class Average:
    """Exponential moving average of a model's weights, with a copy of its other buffers."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model, faster in the first steps to forget the initial weights."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                self.state[key].lerp_(value, 1 - decay)
            else:
                self.state[key].copy_(value)


def save_weights(state: dict[str, torch.Tensor], path: Path) -> None:
    """Write float16 safetensors atomically, by renaming a complete temporary file."""
    half = {k: (v.half() if v.is_floating_point() else v).contiguous() for k, v in state.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    save_file(half, temporary)
    temporary.chmod(0o644)
    temporary.replace(path)


def shipped_vit(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Remove the classifier, because the method does not use the class scores of the pretraining."""
    return {k: v for k, v in state.items() if not k.startswith("head.")}


def shipped_clip(state: dict[str, torch.Tensor], used_tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Set the embeddings of words that no caption uses to zero: they are still random and do not compress."""
    embedding = torch.zeros_like(state["token_embedding.weight"])
    embedding[used_tokens] = state["token_embedding.weight"][used_tokens]
    return {**state, "token_embedding.weight": embedding}
