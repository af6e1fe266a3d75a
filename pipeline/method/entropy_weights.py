"""The uncertainty weight of a pseudo-label, eq. (18)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import xlogy

from pipeline.errors import InputError, ParamsError
from pipeline.method.class_statistics import Matrix64, Vector64


def entropy_weights(fused: Matrix64, *, floor: float = 0.0) -> Vector64:
    """Return ω = 1 − H(p̂) / log|C|, (n,), eq. (18), of p̂ (n, |C|) over the current task's classes.

    One class leaves nothing to be uncertain about: ω = 1, where (18) says 0/0.
    floor: the least weight; the paper has none, the released code 0.2.
    """
    if not 0 <= floor <= 1:
        raise ParamsError(f"weight floor: a number from 0 to 1, not {floor!r}")
    n, classes = fused.shape
    if classes == 0:
        raise InputError("entropy weights: no classes")
    if classes == 1:
        return np.ones(n)
    entropy = -xlogy(fused, fused).sum(axis=1)
    return np.asarray(np.clip(1 - entropy / math.log(classes), floor, 1.0))
