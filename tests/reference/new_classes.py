"""Naive oracles of classes that the source never had, row by row."""

import numpy as np


def first_probabilities(source_scores, clip, new):
    """Return p (n, c): CLIP's probability of each new class, and the rest divided among the others by the source.

    ``source_scores`` (n, c) are arbitrary in the columns of new classes; ``clip`` is (n, c), ``new`` boolean (c,).
    """
    p = np.zeros_like(clip)
    for i, scores in enumerate(source_scores):
        rest = 1.0
        for c in range(len(new)):
            if new[c]:
                p[i, c] = clip[i, c]
                rest -= clip[i, c]
        odds = {c: np.exp(scores[c] - max(scores[~new])) for c in range(len(new)) if not new[c]}
        for c, value in odds.items():
            p[i, c] = rest * value / sum(odds.values())
    return p


def prior_mean(features, clip, c):
    """Return the mean feature (D,) of the images that CLIP assigns to class c, weighted by its probability."""
    total, weight = np.zeros(features.shape[1]), 0.0
    for row, p in zip(features, clip, strict=True):
        if p.argmax() == c:
            total, weight = total + p[c] * row, weight + p[c]
    return total / weight
