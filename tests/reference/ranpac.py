"""Naive oracle of RanPAC: all tasks at once, weighted ridge regression by normal equations."""

import numpy as np

from reference.basics import unit


def lift(row, projection):
    return np.array([max(float(unit(row) @ column), 0.0) for column in projection.T])


def lifted_rows(tasks, source_tasks, lift):
    """Return the lifted rows, labels and weights of tasks (classes, rows, labels, weights).

    A class without rows is represented by the mean of the source's rows, weighted by their number.
    """
    h, y, w = [], [], []
    for classes, rows, labels, weights in tasks:
        h += [lift(row) for row in rows]
        y += list(labels)
        w += list(weights)
        for c in set(classes) - set(labels):
            members = [lift(row) for _, x, y_s, _ in source_tasks for row, k in zip(x, y_s, strict=True) if k == c]
            h.append(np.mean(members, axis=0))
            y.append(c)
            w.append(len(members))
    return np.array(h), np.array(y), np.array(w)


def regress(h, y, w, ridge):
    """Return argmin Σ ω‖Wᵀh − y‖² + λ‖W‖²."""
    left = ridge * np.eye(h.shape[1])
    right = np.zeros((h.shape[1], y.shape[1]))
    for row, target, weight in zip(h, y, w, strict=True):
        left = left + weight * np.outer(row, row)
        right = right + weight * np.outer(row, target)
    return np.linalg.solve(left, right)


def fit(tasks, projection, ridges, source_tasks):
    """Return W (M, K) and the ridge after ``tasks``; the ridge is chosen on every fifth row of each class."""
    h, labels, w = lifted_rows(tasks, source_tasks, lambda row: lift(row, projection))
    held_out = np.array([np.sum(labels[: i + 1] == c) % 5 == 0 for i, c in enumerate(labels)])
    y = np.eye(sum(len(classes) for classes, *_ in tasks))[labels]
    errors = []
    for ridge in ridges:
        W = regress(h[~held_out], y[~held_out], w[~held_out], ridge)
        rows = zip(h[held_out], y[held_out], w[held_out], strict=True)
        errors.append(sum(v * np.sum((row @ W - t) ** 2) for row, t, v in rows))
    ridge = ridges[int(np.argmin(errors))] if held_out.any() else max(ridges)
    return regress(h, y, w, ridge), ridge
