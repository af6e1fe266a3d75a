"""Naive oracles of eq. (14), of the released code's margins, and of eq. (18)."""

import math

from reference.basics import entropy


def ratio(p, q):
    return max(p) / (max(p) + max(q))


def margin_ratio(p, q):
    a, b = ((sorted(r)[-1] - sorted(r)[-2]) for r in (p, q))
    alpha = a / (a + b) if a + b > 0 else 0.5
    return min(max(alpha, 0.2), 0.8)


def fused(p, q, alpha):
    return [alpha * a + (1 - alpha) * b for a, b in zip(p, q, strict=True)]


def weight(p, floor=0.0):
    if len(p) == 1:
        return 1.0
    return max(1 - entropy(p) / math.log(len(p)), floor)
