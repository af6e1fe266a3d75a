"""Evaluate the models on the domains of `digits`, for the model card and never for training."""

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
    """Images of a domain with their digits."""

    name: str
    images: torch.Tensor  # (n, 1, h, w) in [0, 1]
    labels: torch.Tensor  # (n,)


def load_domain(name: str, per_class: int | None = None) -> Domain:
    """Return the images that `digits.generate` would write."""
    collection = {"mnist": digits.mnist, "uci": digits.uci, "print": digits.printed}[name]
    items = list(collection(0, per_class))
    pixels = np.stack([item.pixels for item in items]).astype(np.float32) / 255
    labels = torch.tensor([item.digit for item in items])
    return Domain(name, torch.from_numpy(pixels).unsqueeze(1), labels)


def resize(images: torch.Tensor, size: int) -> torch.Tensor:
    """Resize as in the models' own transforms: bicubic with antialiasing, clamped to [0, 1]."""
    if images.shape[-1] == size:
        return images
    resized = interpolate(images, size=(size, size), mode="bicubic", antialias=True, align_corners=False)
    return resized.clamp(0, 1)


@torch.no_grad()
def vit_features(vit: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return the pooled features (n, d) before the classifier."""
    batches = (as_input(resize(batch, VIT_SIZE), VIT_MEAN_STD) for batch in images.split(256))
    return torch.cat([vit.forward_head(vit.forward_features(batch), pre_logits=True) for batch in batches])


@torch.no_grad()
def clip_embeddings(clip: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return the L2-normalised image embeddings (n, d)."""
    batches = (as_input(resize(batch, CLIP_SIZE), CLIP_MEAN_STD) for batch in images.split(256))
    return torch.cat([clip.encode_image(batch, normalize=True) for batch in batches])


@torch.no_grad()
def zero_shot_scores(clip: nn.Module, embeddings: torch.Tensor) -> torch.Tensor:
    """Return the probabilities (n, 10) of the digits for the prompt "a photo of the digit {name}"."""
    prompts = [f"a photo of the digit {name}" for name in SPOKEN_NAMES]
    texts = clip.encode_text(tokenize(prompts), normalize=True)
    return (embeddings @ texts.T * clip.logit_scale.exp()).softmax(1)


def nearest_mean_accuracy(embeddings: torch.Tensor, labels: torch.Tensor, seed: int = 0) -> float:
    """Return the accuracy of class means of a random 90% of each class on the other 10%."""
    rng = np.random.default_rng(seed)
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = np.flatnonzero(labels.numpy() == digit)
        test[rng.permutation(members)[: len(members) // 10]] = True
    means = torch.stack([embeddings[~test & (labels == d)].mean(0) for d in range(10)])
    return _accuracy(torch.cdist(embeddings[test], means).argmin(1), labels[test])


def evaluate_vit(vit: nn.Module, domain: Domain) -> dict[str, float]:
    """Return accuracies in per cent."""
    vit.eval()
    features = vit_features(vit, domain.images)
    accuracies = {"nearest_mean": nearest_mean_accuracy(normalize(features, dim=1), domain.labels)}
    if vit.num_classes:
        scores = vit.head(features)[:, :10]
        accuracies["class_scores"] = _accuracy(scores.argmax(1), domain.labels)
    return _percentages(accuracies)


def evaluate_clip(clip: nn.Module, domain: Domain) -> dict[str, float]:
    """Return accuracies and the mean confidence of the zero-shot scores in per cent."""
    clip.eval()
    embeddings = clip_embeddings(clip, domain.images)
    scores = zero_shot_scores(clip, embeddings)
    return _percentages(
        {
            "zero_shot": _accuracy(scores.argmax(1), domain.labels),
            "confidence": scores.max(1).values.mean().item(),
            "nearest_mean": nearest_mean_accuracy(embeddings, domain.labels),
        }
    )


def _accuracy(predicted: torch.Tensor, labels: torch.Tensor) -> float:
    return (predicted == labels).float().mean().item()


def _percentages(shares: dict[str, float]) -> dict[str, float]:
    return {name: round(100 * value, 1) for name, value in shares.items()}
