"""Naive oracle of FeCAM's two programs: class by class, entry by entry, with an explicit inverse.

With ``tukey``, embeddings are nonnegative (the authors' ResNet program); otherwise signed (their ViT script).
"""

import numpy as np

from reference import class_statistics
from reference.basics import unit


def root(row):
    return np.array([float(v) ** 0.5 for v in row])


def feature(row, tukey):
    return unit(root(row)) if tukey else unit(row)


def shrink(S, gamma1, gamma2):
    d = len(S)
    V1 = np.mean([S[i, i] for i in range(d)])
    V2 = np.mean([S[i, j] for i in range(d) for j in range(d) if i != j and S[i, j] != 0])
    return S + gamma1 * V1 * np.eye(d) + gamma2 * V2 * (np.ones((d, d)) - np.eye(d))


def gaussian(rows, weights, tukey):
    """Return the mean and the correlation matrix of a class."""
    one_class = (np.zeros(len(rows), int), weights, 1)
    if tukey:
        mean = feature(class_statistics.means(rows, *one_class)[0], tukey)
        S = class_statistics.covariance([root(row) for row in rows], *one_class)
        S = shrink(shrink(S, 1.0, 1.0), 1.0, 1.0)
    else:
        units = [unit(row) for row in rows]
        mean = class_statistics.means(units, *one_class)[0]
        S = shrink(class_statistics.covariance(units, *one_class), 1.0, 0.0)
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
