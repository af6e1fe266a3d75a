"""Naive oracle of RanPAC: all rows of all tasks at once, weighted ridge regression by normal equations."""

import numpy as np

from reference.basics import unit


def lift(row, projection):
    return np.array([max(float(unit(row) @ column), 0.0) for column in projection.T])


def lifted_rows(tasks, c, projection):
    """Return the lifted rows of class c, of tasks (classes, rows, labels, weights)."""
    return [
        lift(row, projection)
        for _, rows, labels, _ in tasks
        for row, label in zip(rows, labels, strict=True)
        if label == c
    ]


def regress(h, y, w, ridge):
    """Return argmin Σ ω‖Wᵀh − y‖² + λ‖W‖²."""
    left = ridge * np.eye(h.shape[1])
    right = np.zeros((h.shape[1], y.shape[1]))
    for row, target, weight in zip(h, y, w, strict=True):
        left = left + weight * np.outer(row, row)
        right = right + weight * np.outer(row, target)
    return np.linalg.solve(left, right)


def fit(tasks, projection, ridges, source_tasks=None):
    """Return W (M, K) and the ridge after the last of ``tasks``, each (classes, rows, labels, weights).

    source_tasks: the source's, of which a class without a row takes its mean, as often as it has rows.
    """
    K = sum(len(classes) for classes, *_ in tasks)
    h, labels, weights, held = [], [], [], []
    count = dict.fromkeys(range(K), 0)
    for _, rows, row_labels, row_weights in tasks:
        for row, c, w in zip(rows, row_labels, row_weights, strict=True):
            count[c] += 1
            h.append(lift(row, projection))
            labels.append(c)
            weights.append(w)
            held.append(count[c] % 5 == 0)
    for c in range(K):
        if not count[c]:
            lifted = lifted_rows(source_tasks, c, projection)
            h += [np.mean(lifted, axis=0)] * len(lifted)
            labels += [c] * len(lifted)
            weights += [1.0] * len(lifted)
            held += [False] * len(lifted)
    h, w, out = np.array(h), np.array(weights), np.array(held)
    y = np.eye(K)[labels]
    errors = []
    for ridge in ridges:
        W = regress(h[~out], y[~out], w[~out], ridge)
        errors.append(sum(v * np.sum((row @ W - t) ** 2) for row, t, v in zip(h[out], y[out], w[out], strict=True)))
    ridge = ridges[int(np.argmin(errors))] if out.any() else max(ridges)
    return regress(h, y, w, ridge), ridge
