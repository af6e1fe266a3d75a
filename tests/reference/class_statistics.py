"""Naive oracle of weighted class means and the shared covariance, docs/method.md column `calibrated`.

Rows are z itself (not about a pivot), float64: mean Σωz/Σω, covariance Σω(z−μ)(z−μ)ᵀ/Σω.
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
        for i in range(D):
            for j in range(D):
                scatter[i, j] += float(w) * centred[i] * centred[j]
        total += float(w)
    return scatter / total
