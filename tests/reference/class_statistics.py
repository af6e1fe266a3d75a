"""Naive oracles of weighted class means and the shared covariance, on z itself, not about a pivot.

`means` and `covariance`: Σωz/Σω and Σω(z−μ)(z−μ)ᵀ/Σω. `weighted_moments`: eqs. (16) and (17) as printed.
"""

import numpy as np


def means(rows, labels, weights, classes):
    result = []
    for c in range(classes):
        total, vector = 0.0, np.zeros(len(rows[0]))
        for z, label, w in zip(rows, labels, weights, strict=True):
            if label == c:
                total += float(w)
                vector = vector + float(w) * np.asarray(z, dtype=np.float64)
        result.append(vector / total)
    return np.array(result)


def covariance(rows, labels, weights, classes):
    mu = means(rows, labels, weights, classes)
    D = len(rows[0])
    scatter, total = np.zeros((D, D)), 0.0
    for z, label, w in zip(rows, labels, weights, strict=True):
        centred = np.asarray(z, dtype=np.float64) - mu[label]
        scatter += float(w) * np.outer(centred, centred)
        total += float(w)
    return scatter / total


def weighted_moments(classes):
    """classes: list of (rows, weights), one per class in order of arrival. Returns means and A."""
    means, A, N_total, all_weights = [], None, 0, []
    for rows, weights in classes:
        mu = np.zeros(len(rows[0]))
        for z, w in zip(rows, weights, strict=True):
            mu = mu + w * np.asarray(z)
        mu = mu / len(rows)  # (16)
        N_prev, N_total = N_total, N_total + len(rows)
        all_weights += list(weights)
        scatter = np.zeros((len(mu), len(mu)))
        for z, w in zip(rows, weights, strict=True):
            scatter += w * np.outer(z - mu, z - mu)
        A = np.zeros_like(scatter) if A is None else A
        A = N_prev / N_total * A + scatter / (sum(all_weights) - 1)  # (17)
        means.append(mu)
    return np.array(means), A
