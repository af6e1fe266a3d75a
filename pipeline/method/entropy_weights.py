"""The uncertainty weight of a pseudo-label, eq. (18)."""

from __future__ import annotations

import math

import numpy as np

from pipeline.method.rows import Matrix64, Vector64


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
