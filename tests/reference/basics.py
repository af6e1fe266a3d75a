"""Functions shared by the naive oracles: unit rows, means, softmax, entropy, fusion (14) and weights (18)."""

import math

import numpy as np


def unit(row):
    row = np.asarray(row, dtype=np.float64)
    return row / math.sqrt(sum(v * v for v in row))


def weighted_mean(rows):
    """Return Σωz / Σω, given a list of pairs (z, ω)."""
    return sum(w * np.asarray(z, dtype=np.float64) for z, w in rows) / sum(w for _, w in rows)


def softmax(values):
    top = max(values)
    powers = [math.exp(v - top) for v in values]
    return [p / sum(powers) for p in powers]


def entropy(p):
    return -sum(v * math.log(v) for v in p if v > 0)


def ratio(p, q):
    return max(p) / (max(p) + max(q))


def margin_ratio(p, q):
    a, b = ((sorted(r)[-1] - sorted(r)[-2]) for r in (p, q))
    alpha = a / (a + b) if a + b > 0 else 0.5
    return min(max(alpha, 0.2), 0.8)


def fused(p, q, alpha):
    return [alpha * a + (1 - alpha) * b for a, b in zip(p, q, strict=True)]


def between_variance(a, b):
    """Return Otsu's criterion: the variance between two parts of a list, times its length squared."""
    return len(a) * len(b) * (sum(a) / len(a) - sum(b) / len(b)) ** 2


def weight(p, floor=0.0):
    if len(p) == 1:
        return 1.0
    return max(1 - entropy(p) / math.log(len(p)), floor)
