"""The uncertainty weight of a pseudo-label, eq. (18)."""

from __future__ import annotations

import math

import numpy as np

from pipeline.errors import InputError, ParamsError
from pipeline.method.rows import Matrix64, Vector64


def entropy_weights(fused: Matrix64, *, floor: float = 0.0) -> Vector64:
    """Return ω = 1 − H(p̂) / log c, (n,), of p̂ (n, c), eq. (18), and at least ``floor``; 1 for a single class.

    Examples
    --------
    >>> entropy_weights(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [1.0, 0.0]
    """
    if not 0 <= floor <= 1:
        raise ParamsError(f"weight floor: a number from 0 to 1, not {floor!r}")
    n, classes = fused.shape
    if classes == 0:
        raise InputError("entropy weights: no classes")
    if classes == 1:
        return np.ones(n)
    entropy = -(fused * np.log(np.where(fused > 0, fused, 1.0))).sum(axis=1)  # 0·log 0 = 0
    return np.asarray(np.clip(1 - entropy / math.log(classes), floor, 1.0))
