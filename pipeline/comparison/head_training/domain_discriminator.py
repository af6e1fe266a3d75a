"""Domain-adversarial training: a discriminator tells source from target, the features are trained to mislead it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator, Tensor

WIDTH = 64  # of the discriminator's own hidden layer


class DomainDiscriminator:
    """relu(z Aᵀ + a) bᵀ + c: the logit (n,) that a feature row z (n, h) is of the target."""

    def __init__(self, features: int, generator: Generator, *, width: int = WIDTH) -> None:
        import torch

        first = torch.randn(width, features, generator=generator) * math.sqrt(2 / features)
        last = torch.randn(width, generator=generator) / math.sqrt(width)
        drawn = [first, torch.zeros(width), last, torch.zeros(1)]
        self.parameters: list[Tensor] = [tensor.requires_grad_() for tensor in drawn]

    def logit(self, z: Tensor) -> Tensor:
        """Return the logit (n,) of the target."""
        weight, bias, last, offset = self.parameters
        return (z @ weight.T + bias).relu() @ last + offset

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross-entropy of telling feature rows of both domains, each domain weighing the same."""
        from torch.nn.functional import softplus

        return softplus(self.logit(source)).mean() + softplus(-self.logit(target)).mean()


def reversed_gradient(z: Tensor, strength: float) -> Tensor:
    """Return z itself, whose gradient is −strength times what arrives: the gradient reversal layer."""
    # z·(−s) carries the gradient; the detached rest restores the value
    return -strength * z + ((1 + strength) * z).detach()


def adversarial_strength(progress: float, gamma: float = 10.0) -> float:
    """Return λ_p = 2 / (1 + exp(−γp)) − 1, from 0 to almost 1: the discriminator learns before it is listened to."""
    return 2 / (1 + math.exp(-gamma * progress)) - 1
