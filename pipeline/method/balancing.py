"""Soft label balancing: pull a task's class proportions towards equal ones, as far as asked.

Sinkhorn scaling finds one factor per class under which the probabilities of a task's samples
average to equal class shares. That assumes balanced classes; ``strength`` softens it: the factors
are raised to that power, 0 leaving the probabilities alone, 1 forcing equal shares.
"""

from __future__ import annotations

import numpy as np

from pipeline.errors import ParamsError
from pipeline.method.class_statistics import Matrix64

ROUNDS = 50
LEAST_SHARE = 1e-12


def balanced(p: Matrix64, strength: float) -> Matrix64:
    """Return probabilities (n, C) with class shares pulled towards 1/C by ``strength`` in [0, 1]."""
    if not 0 <= strength <= 1:
        raise ParamsError(f"balancing: a number from 0 to 1, not {strength!r}")
    if strength == 0 or not len(p):
        return p
    factors = np.ones(p.shape[1])
    for _ in range(ROUNDS):
        share = _scaled(p, factors).mean(axis=0)
        factors /= np.maximum(share, LEAST_SHARE) * p.shape[1]
    return _scaled(p, factors**strength)


def _scaled(p: Matrix64, factors: Matrix64) -> Matrix64:
    scaled = p * factors
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))
