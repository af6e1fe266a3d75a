"""Naive oracle of streaming LDA: one row at a time, an explicit inverse, weighted Welford updates."""

import numpy as np

from reference.basics import unit


def stream(tasks, *, shrinkage, fallback=None):
    """Yield the means (K, d) and the shrunk covariance after each task of (classes, rows, labels, weights)."""
    means, weight = {}, {}
    scatter, total, classes_seen = None, 0.0, []
    for classes, rows, labels, weights in tasks:
        classes_seen += list(classes)
        for row, c, w in zip(rows, labels, weights, strict=True):
            x = unit(row)
            if scatter is None:
                scatter = np.zeros((len(x), len(x)))
            if c not in means:
                means[c], weight[c] = np.zeros(len(x)), 0.0
            share = w / (weight[c] + w)
            gap = x - means[c]
            scatter = scatter + w * (1 - share) * np.outer(gap, gap)  # a first row adds nothing
            means[c] = means[c] + share * gap
            weight[c] += w
            total += w
        together = np.array([means[c] if c in means else fallback[c] for c in classes_seen])
        covariance = scatter / total
        d = len(covariance)
        yield together, (1 - shrinkage) * covariance + shrinkage * np.eye(d)


def scores(rows, means, covariance):
    """Return −½ (x − μ)ᵀΣ⁻¹(x − μ), (n, K): LDA's scores up to a number per row."""
    inverse = np.linalg.inv(covariance)
    return np.array([[-0.5 * (unit(row) - mean) @ inverse @ (unit(row) - mean) for mean in means] for row in rows])
