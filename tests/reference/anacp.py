"""Naive oracle of AnaCP: all tasks at once, row by row; the noise of the drawn rows is an argument."""

import math

import numpy as np
from scipy.linalg import sqrtm

from reference import class_statistics
from reference.basics import unit
from reference.ranpac import lifted_rows, regress


def gelu(row):
    return np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in row])


def spread(means, covariance):
    """Return the targets; the last of the C singular values of the centred means is zero and stays zero."""
    root = np.linalg.inv(np.real(sqrtm(covariance)))
    centre = np.mean(means, axis=0)
    U, s, Vh = np.linalg.svd((means - centre) @ root, full_matrices=False)
    moved = sum((s[i] + 1) * np.outer(U[:, i], Vh[i]) for i in range(len(means) - 1))
    return np.array([unit(row) for row in np.asarray(moved) @ root + centre])


def scores(tasks, test, heads, S, noise, source_tasks):
    """Return the scores (n, K) of test rows after ``tasks``; ``noise`` (100 K, d) are standard normal numbers."""
    K = sum(len(classes) for classes, *_ in tasks)
    M = S.shape[1]
    x, y, w = lifted_rows(tasks, source_tasks, unit)
    z = [lifted_rows(tasks, source_tasks, lambda row, R=R: gelu(unit(row) @ R))[0] for R in heads]
    means = class_statistics.means(x, y, w, K)
    covariance = class_statistics.covariance(x, y, w, K) + 1e-4 * np.eye(x.shape[1])
    targets = spread(means, covariance)
    thetas = [regress(lifted, targets[y], w, 0.02 * M) for lifted in z]

    def features(row):
        outputs = [unit(gelu(row @ R) @ theta) for R, theta in zip(heads, thetas, strict=True)]
        return gelu(np.mean(outputs, axis=0) @ S)

    root = np.linalg.cholesky(covariance)
    labels = np.repeat(np.arange(K), 100)
    drawn = np.array([features(means[c] + root @ e) for c, e in zip(labels, noise, strict=True)])
    W = regress(drawn, np.eye(K)[labels], np.ones(len(drawn)), 0.02 * M)
    return np.array([features(unit(row)) @ W for row in test])
