"""A class that the source never had, row by row: CLIP speaks for it."""

import numpy as np


def first_probabilities(source_scores, clip, new):
    """Return p (n, c): of a new class CLIP's probability; the source divides the rest among the others.

    source_scores: (n, c), anything in the columns of new classes. clip: (n, c). new: (c,) booleans.
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
    """Return the mean of the features (n, D) of the images that CLIP takes for class c, weighted by its probability."""
    total, weight = np.zeros(features.shape[1]), 0.0
    for row, p in zip(features, clip, strict=True):
        if p.argmax() == c:
            total, weight = total + p[c] * row, weight + p[c]
    return total / weight
