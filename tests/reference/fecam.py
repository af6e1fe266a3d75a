"""Naive oracle of FeCAM's two programs: class by class, entry by entry, an explicit inverse.

tukey: embeddings are nonnegative (the authors' ResNet program); otherwise signed (their ViT script).
"""

import numpy as np

from reference.basics import unit


def root(row):
    return np.array([float(v) ** 0.5 for v in row])


def feature(row, tukey):
    return unit(root(row)) if tukey else unit(row)


def weighted_mean(rows, weights):
    return sum(w * row for w, row in zip(weights, rows, strict=True)) / sum(weights)


def covariance(rows, weights):
    mean, d = weighted_mean(rows, weights), len(rows[0])
    S = np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            terms = [(row[i] - mean[i]) * (row[j] - mean[j]) for row in rows]
            S[i, j] = sum(w * t for w, t in zip(weights, terms, strict=True)) / sum(weights)
    return S


def shrink(S, gamma1, gamma2):
    d = len(S)
    V1 = np.mean([S[i, i] for i in range(d)])
    V2 = np.mean([S[i, j] for i in range(d) for j in range(d) if i != j and S[i, j] != 0])
    return S + gamma1 * V1 * np.eye(d) + gamma2 * V2 * (np.ones((d, d)) - np.eye(d))


def gaussian(rows, weights, tukey):
    """Return the mean and the correlation matrix of a class."""
    if tukey:
        mean = feature(weighted_mean(np.array(rows, dtype=float), weights), tukey)
        S = covariance([root(row) for row in rows], weights)
        S = shrink(shrink(S, 1.0, 1.0), 1.0, 1.0)
    else:
        units = [unit(row) for row in rows]
        mean = weighted_mean(units, weights)
        S = shrink(covariance(units, weights), 1.0, 0.0)
    d = len(S)
    return mean, np.array([[S[i, j] / np.sqrt(S[i, i] * S[j, j]) for j in range(d)] for i in range(d)])


def distances(tasks, test, *, tukey, fallback=None):
    """Return the squared Mahalanobis distances (n, C) of test rows to each class, in order of arrival."""
    columns = []
    for classes, rows, labels, weights in tasks:
        for c in classes:
            index = [i for i, label in enumerate(labels) if label == c]
            if not index:
                columns.append(fallback[:, c])
                continue
            mean, R = gaussian([rows[i] for i in index], [weights[i] for i in index], tukey)
            inverse = np.linalg.inv(R)
            gaps = [feature(row, tukey) - mean for row in test]
            columns.append(np.array([gap @ inverse @ gap for gap in gaps]))
    return np.column_stack(columns)
