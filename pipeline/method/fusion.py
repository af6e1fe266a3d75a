"""Fusion of the KLDA branch and the CLIP branch, eq. (14), and the weight of the labels it gives, eq. (18).

One implementation to adapt and to test.

p̂ = α p + β p_VLM per sample, with β = 1 − α. α is

- ``max_probability``: max p / (max p + max p_VLM), the paper's ("arg max" in print);
- ``margin``: the same ratio of top-2 margins, clamped to [0.2, 0.8]: what the released code adapts
  with;
- ``klda`` / ``clip``: 1 / 0, one branch alone, for ablations.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix64, Vector64

FusionKind = Literal["max_probability", "margin", "klda", "clip"]
MARGIN_RANGE = (0.2, 0.8)


def fusion_weight(p: Matrix64, p_vlm: Matrix64, kind: FusionKind) -> Vector64:
    """Return α, (n,), of eq. (14) from both branches' probabilities (n, C)."""
    if kind == "klda":
        return np.ones(len(p))
    if kind == "clip":
        return np.zeros(len(p))
    if kind == "max_probability":
        return _share(p.max(axis=1), p_vlm.max(axis=1))
    return np.clip(_share(_margin(p), _margin(p_vlm)), *MARGIN_RANGE)


def fuse(p: Matrix64, p_vlm: Matrix64, kind: FusionKind = "max_probability") -> Matrix64:
    """Return p̂ = α p + (1 − α) p_VLM, (n, C), of both branches' probabilities (n, C), eq. (14).

    Examples
    --------
    >>> fuse(np.array([[0.75, 0.25]]), np.array([[0.25, 0.75]])).tolist()
    [[0.5, 0.5]]
    """
    alpha = fusion_weight(p, p_vlm, kind)[:, None]
    return np.asarray(alpha * p + (1 - alpha) * p_vlm)


def gate(fused: Matrix64, threshold: float) -> npt.NDArray[np.bool_]:
    """Return which samples (n,) keep their pseudo-label: max p̂ at or above ``threshold``."""
    return np.asarray(fused.max(axis=1) >= threshold)


def _share(mine: Vector64, other: Vector64) -> Vector64:
    """Return mine / (mine + other); one half where both are zero."""
    total = mine + other
    return np.divide(mine, total, out=np.full_like(total, 0.5), where=total > 0)


def _margin(p: Matrix64) -> Vector64:
    """Return the difference of the two largest of each row; of a single class, all of it."""
    if p.shape[1] == 1:
        return np.asarray(p[:, 0])
    top = np.partition(p, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


def entropies(p: Matrix64) -> Vector64:
    """Return the entropy H (n,), in nats, of each row of probabilities p (n, C); 0·log 0 is 0.

    Examples
    --------
    >>> entropies(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
    [0.0, 0.693]
    """
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1)) + 0.0


def entropy_weights(fused: Matrix64, *, floor: float = 0.0) -> Vector64:
    """Return ω = 1 − H(p̂) / log c, (n,), of p̂ (n, c), eq. (18), and at least ``floor``; 1 for a single class.

    Examples
    --------
    >>> entropy_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [1.0, 0.0]
    >>> entropy_weights(np.array([[1.0]])).tolist()
    [1.0]
    """
    n, classes = fused.shape
    if classes == 1:
        return np.ones(n)
    return np.clip(1 - entropies(fused) / math.log(classes), floor, 1.0)
