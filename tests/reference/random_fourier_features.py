"""Naive oracle of random Fourier features, eqs. (3), (7), float64 loops."""

import math


def feature(x, omega, beta):
    """Return z(x) of one unit row: omega is (d, D) nested lists, beta (D,)."""
    D = len(beta)
    norm = math.sqrt(sum(float(v) ** 2 for v in x))
    return [
        math.sqrt(2 / D) * math.cos(sum(float(omega[i][j]) * float(x[i]) / norm for i in range(len(x))) + beta[j])
        for j in range(D)
    ]


def kernel(x, y, gamma):
    nx, ny = (math.sqrt(sum(float(v) ** 2 for v in r)) for r in (x, y))
    return math.exp(-gamma * sum((a / nx - b / ny) ** 2 for a, b in zip(x, y, strict=True)))
