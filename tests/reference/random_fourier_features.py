"""Naive oracle of random Fourier features, eqs. (3), (7), in float64."""

import math

import numpy as np

from reference.basics import unit


def feature(x, omega, beta):
    """Return z(x) (D,) of one row, given omega (d, D) and beta (D,)."""
    x, omega, D = unit(x), np.asarray(omega, dtype=np.float64), len(beta)
    return np.array([math.sqrt(2 / D) * math.cos(x @ omega[:, j] + beta[j]) for j in range(D)])


def kernel(x, y, gamma):
    return math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(unit(x), unit(y), strict=True)))
