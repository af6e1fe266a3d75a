"""The two models: how they are built, averaged and saved."""

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
# Below weights/digits, under the names that the hubs use.
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
    """Build a classifier over `classes`; its pooled features are the embedding that ships.

    Without classes it has no classifier, as shipped.
    """
    model: nn.Module = timm.create_model(VIT_NAME, num_classes=classes, **VIT_KWARGS)
    initialise_vit(model)
    return model


@torch.no_grad()
def initialise_vit(model: nn.Module) -> None:
    """Start where a small transformer learns at once, not after hundreds of steps.

    timm's start (all weights of deviation 0.02) suits wide models: here the places of the patches
    would drown in what a black patch (-1 in every pixel) adds to each of them. So a black patch is
    made to add nothing, places are waves in both directions, and weights suit their layer's size.
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
    """(1, side * side, width): sines and cosines of both coordinates at width / 4 frequencies."""
    axis = torch.arange(side).float()
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    count = width // 4
    frequency = math.pi / side * (torch.arange(count) / count * 5 + 0.5)
    angles = [coordinate.reshape(-1, 1) * frequency for coordinate in (x, y)]
    return torch.cat([f(a) for a in angles for f in (torch.sin, torch.cos)], dim=1).unsqueeze(0)


def create_clip() -> nn.Module:
    """Build the open_clip model that weights/digits/clip/open_clip_config.json describes."""
    model: nn.Module = open_clip.CLIP(**json.loads(CLIP_CONFIG.read_text()))
    return model


@cache
def _tokenizer() -> open_clip.SimpleTokenizer:
    """Make the tokenizer once: it reads its vocabulary for half a second."""
    length = json.loads(CLIP_CONFIG.read_text())["text_cfg"]["context_length"]
    return open_clip.SimpleTokenizer(context_length=length)


def tokenize(captions: list[str]) -> torch.Tensor:
    """(n, context length) token numbers."""
    tokens: torch.Tensor = _tokenizer()(captions)
    return tokens


def as_input(grey: torch.Tensor, mean_std: tuple[Any, Any]) -> torch.Tensor:
    """Grey images (n, 1, h, w) in [0, 1] to what a model wants: three channels, normalised."""
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in mean_std)
    return (grey - mean) / std


class Average:
    """Exponential moving average of a model's weights, and a copy of its other buffers."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model; faster in the first steps, when the start still weighs."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                self.state[key].lerp_(value, 1 - decay)
            else:
                self.state[key].copy_(value)


def save_weights(state: dict[str, torch.Tensor], path: Path) -> None:
    """Write float16 safetensors aside, then rename: a reader never sees half a file."""
    half = {k: (v.half() if v.is_floating_point() else v).contiguous() for k, v in state.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    save_file(half, aside)
    aside.chmod(0o644)
    aside.replace(path)


def shipped_vit(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without the classifier: the class scores of the pretraining are of no use to the method."""
    return {k: v for k, v in state.items() if not k.startswith("head.")}


def shipped_clip(state: dict[str, torch.Tensor], used_tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """With zeros for the words no caption used: they are still random, and would not compress."""
    embedding = torch.zeros_like(state["token_embedding.weight"])
    embedding[used_tokens] = state["token_embedding.weight"][used_tokens]
    return {**state, "token_embedding.weight": embedding}
