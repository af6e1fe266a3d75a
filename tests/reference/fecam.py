"""Naive oracle of FeCAM: class by class, entry by entry, an explicit inverse."""

import numpy as np


def feature(row, tukey):
    row = [float(v) ** 0.5 if tukey else float(v) for v in row]
    return np.array(row) / np.sqrt(sum(v**2 for v in row))


def gaussian(rows, weights, tukey, gamma1, gamma2):
    """Return the mean and the correlation matrix of a class, shrunk before it is normalised."""
    phi = [feature(row, tukey) for row in rows]
    total, d = sum(weights), len(phi[0])
    mean = sum(w * f for w, f in zip(weights, phi, strict=True)) / total
    S = np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            S[i, j] = (
                sum(
                    w * (f[i] - mean[i]) * (f[j] - mean[j])
                    for w, f in zip(weights, phi, strict=True)
                )
                / total
            )
    V1 = np.mean([S[i, i] for i in range(d)])
    V2 = np.mean([S[i, j] for i in range(d) for j in range(d) if i != j])
    R = np.zeros((d, d))
    shrunk = S + gamma1 * V1 * np.eye(d) + gamma2 * V2 * (np.ones((d, d)) - np.eye(d))
    for i in range(d):
        for j in range(d):
            R[i, j] = shrunk[i, j] / np.sqrt(shrunk[i, i] * shrunk[j, j])
    return mean, R


def distances(tasks, test, *, tukey, gamma2, fallback=None):
    """Return the squared Mahalanobis distances (n, C) of test rows to each class, in order of arrival."""
    columns = []
    for classes, rows, labels, weights in tasks:
        for c in classes:
            members = [i for i, label in enumerate(labels) if label == c]
            if not members:
                columns.append(fallback[:, c])
                continue
            mean, R = gaussian(
                [rows[i] for i in members], [weights[i] for i in members], tukey, 1.0, gamma2
            )
            inverse = np.linalg.inv(R)
            gaps = [feature(row, tukey) - mean for row in test]
            columns.append(np.array([gap @ inverse @ gap for gap in gaps]))
    return np.column_stack(columns)
