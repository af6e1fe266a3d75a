"""Naive oracles of weighted class means and the shared covariance, on z itself without a pivot.

`means` and `covariance`: Σωz/Σω and Σω(z−μ)(z−μ)ᵀ/Σω. `weighted_moments`: eqs. (16) and (17) as printed.
"""

import numpy as np

from reference.basics import weighted_mean


def means(rows, labels, weights, classes):
    images = list(zip(rows, labels, weights, strict=True))
    return np.array([weighted_mean([(z, w) for z, label, w in images if label == c]) for c in range(classes)])


def covariance(rows, labels, weights, classes):
    mu = means(rows, labels, weights, classes)
    centred = [np.asarray(z, dtype=np.float64) - mu[label] for z, label in zip(rows, labels, strict=True)]
    return sum(w * np.outer(z, z) for z, w in zip(centred, weights, strict=True)) / sum(weights)


def weighted_moments(classes):
    """Return the means and A, given a list of (rows, weights), one per class in order of arrival."""
    means, A, N_total, weight = [], 0.0, 0, 0.0
    for rows, weights in classes:
        mu = sum(w * z for z, w in zip(rows, weights, strict=True)) / len(rows)  # (16)
        scatter = sum(w * np.outer(z - mu, z - mu) for z, w in zip(rows, weights, strict=True))
        N_prev, N_total, weight = N_total, N_total + len(rows), weight + sum(weights)
        A = N_prev / N_total * A + scatter / (weight - 1)  # (17)
        means.append(mu)
    return np.array(means), A
