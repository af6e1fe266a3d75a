"""Naive eqs. (16) and (17) as printed, on z itself, class by class."""

import numpy as np


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
