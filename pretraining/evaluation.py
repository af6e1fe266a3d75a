"""How good the models are on the domains of `digits`: for the model card, never for training."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import interpolate, normalize

from pipeline.datasets import digits
from pretraining.models import CLIP_MEAN_STD, CLIP_SIZE, VIT_MEAN_STD, VIT_SIZE, as_input, tokenize

SPOKEN_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class Domain:
    """images: (n, 1, h, w) in [0, 1]; labels: (n,)."""

    name: str
    images: torch.Tensor
    labels: torch.Tensor


def load_domain(name: str, per_class: int | None = None) -> Domain:
    """Make the images that `digits.generate` would write."""
    collection = {"mnist": digits.mnist, "uci": digits.uci, "print": digits.printed}[name]
    items = list(collection(0, per_class))
    pixels = np.stack([item.pixels for item in items]).astype(np.float32) / 255
    labels = torch.tensor([item.digit for item in items])
    return Domain(name, torch.from_numpy(pixels).unsqueeze(1), labels)


def resize(images: torch.Tensor, size: int) -> torch.Tensor:
    """As the models' own transforms: bicubic with antialiasing, values kept in [0, 1]."""
    if images.shape[-1] == size:
        return images
    resized = interpolate(images, size=(size, size), mode="bicubic", antialias=True, align_corners=False)
    return resized.clamp(0, 1)


@torch.no_grad()
def vit_features(vit: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """(n, d) pooled features, before the classifier."""
    parts = []
    for part in images.split(256):
        x = as_input(resize(part, VIT_SIZE), VIT_MEAN_STD)
        parts.append(vit.forward_head(vit.forward_features(x), pre_logits=True))
    return torch.cat(parts)


@torch.no_grad()
def clip_embeddings(clip: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """(n, d), L2-normalised image embeddings."""
    parts = [
        clip.encode_image(as_input(resize(part, CLIP_SIZE), CLIP_MEAN_STD), normalize=True)
        for part in images.split(256)
    ]
    return torch.cat(parts)


@torch.no_grad()
def zero_shot_scores(clip: nn.Module, embeddings: torch.Tensor) -> torch.Tensor:
    """(n, 10) probabilities over the digits, prompt "a photo of the digit {name}"."""
    prompts = [f"a photo of the digit {name}" for name in SPOKEN_NAMES]
    texts = clip.encode_text(tokenize(prompts), normalize=True)
    return (embeddings @ texts.T * clip.logit_scale.exp()).softmax(1)


def nearest_mean_accuracy(embeddings: torch.Tensor, labels: torch.Tensor, seed: int = 0) -> float:
    """Class means of a random 90% of each class, tested on the other 10%."""
    rng = np.random.default_rng(seed)
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = np.flatnonzero(labels.numpy() == digit)
        test[rng.permutation(members)[: len(members) // 10]] = True
    means = torch.stack([embeddings[~test & (labels == d)].mean(0) for d in range(10)])
    return _share(torch.cdist(embeddings[test], means).argmin(1), labels[test])


def evaluate_vit(vit: nn.Module, domain: Domain) -> dict[str, float]:
    """Accuracies in per cent."""
    vit.eval()
    features = vit_features(vit, domain.images)
    figures = {"nearest_mean": nearest_mean_accuracy(normalize(features, dim=1), domain.labels)}
    if vit.num_classes:
        scores = vit.head(features)[:, :10]
        figures["class_scores"] = _share(scores.argmax(1), domain.labels)
    return _per_cent(figures)


def evaluate_clip(clip: nn.Module, domain: Domain) -> dict[str, float]:
    """Accuracies in per cent, and the mean confidence of the zero-shot scores."""
    clip.eval()
    embeddings = clip_embeddings(clip, domain.images)
    scores = zero_shot_scores(clip, embeddings)
    return _per_cent(
        {
            "zero_shot": _share(scores.argmax(1), domain.labels),
            "confidence": scores.max(1).values.mean().item(),
            "nearest_mean": nearest_mean_accuracy(embeddings, domain.labels),
        }
    )


def _share(predicted: torch.Tensor, labels: torch.Tensor) -> float:
    return (predicted == labels).float().mean().item()


def _per_cent(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(100 * value, 1) for name, value in figures.items()}
