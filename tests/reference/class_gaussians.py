"""Naive oracles of TransCLIP and StatA on one task: loops over rows and classes, dense affinities."""

import numpy as np

from reference.basics import unit


def affinities(rows):
    w = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        cosines = [(-(row @ other), j) for j, other in enumerate(rows) if j != i]
        for negative, j in sorted(cosines)[:3]:
            w[i, j] = -negative
    return w


def log_density(row, mean, variance):
    v = np.maximum(variance, 1e-3 * np.mean(variance))
    return -0.5 * np.sum((row - mean) ** 2 / v) - 0.5 * np.sum(np.log(v))


def assign(rows, means, variances, prior, z, w):
    for _ in range(5):
        new = np.zeros_like(z)
        for i, row in enumerate(rows):
            neighbours = sum((w[i, j] + w[j, i]) * z[j] for j in range(len(rows)))
            for c in range(len(means)):
                inner = log_density(row, means[c], variances[c]) + 50 / 6 * neighbours[c]
                new[i, c] = np.log(prior[i, c]) + inner / 50
            new[i] = np.exp(new[i] - max(new[i]))
            new[i] /= new[i].sum()
        z = new
    return z


def transclip(rows, prior):
    """Return the means (c, d) and the shared variances (d,)."""
    n, d = rows.shape
    C, w, z = prior.shape[1], affinities(rows), prior
    means = []
    for c in range(C):
        surest = sorted(range(n), key=lambda i: -prior[i, c])[:8]
        means.append(unit(sum(prior[i, c] * rows[i] for i in surest)))
    variance = np.full(d, 1 / d)
    for _ in range(10):
        z = assign(rows, means, [variance] * C, prior, z, w)
        means = [unit(sum(z[i, c] * rows[i] for i in range(n))) for c in range(C)]
        variance = sum(z[i, c] * (rows[i] - means[c]) ** 2 for i in range(n) for c in range(C)) / n
    return np.array(means), variance


def stata(rows, prior, anchors):
    """Return the means and the variances (c, d)."""
    n, C = prior.shape
    w, z, means = affinities(rows), prior, anchors
    first = sum(prior[i, c] * (rows[i] - anchors[c]) ** 2 for i in range(n) for c in range(C)) / n
    variances = [first] * C
    for _ in range(10):
        z = assign(rows, means, variances, prior, z, w)
        new_means, new_variances = [], []
        for c in range(C):
            count = sum(int(np.argmax(z[i])) == c for i in range(n))
            beta = count / (1 + count)
            mean = unit(sum(z[i, c] * rows[i] for i in range(n)))
            mean = unit(beta * mean + (1 - beta) * anchors[c])
            variance = sum(z[i, c] * (rows[i] - mean) ** 2 for i in range(n)) / z[:, c].sum()
            new_means.append(mean)
            anchored = first + (anchors[c] - mean) ** 2
            new_variances.append(beta * variance + (1 - beta) * anchored)
        means, variances = new_means, new_variances
    return np.array(means), np.array(variances)
