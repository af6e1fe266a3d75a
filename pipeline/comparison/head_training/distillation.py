"""Knowledge distillation: a new head keeps the old one's softened answers (Hinton et al., 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TEMPERATURE = 2.0  # of both LwF and EEIL, in their papers


def distillation(logits: Tensor, old: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return the mean over rows of −Σ_c p_c log q_c, p = softmax(old / T), q = softmax(logits / T), both (n, C)."""
    p = (old / temperature).softmax(dim=1)
    return -(p * (logits / temperature).log_softmax(dim=1)).sum(dim=1).mean()
