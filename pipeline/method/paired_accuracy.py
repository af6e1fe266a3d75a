"""How sure a difference between two methods' accuracies is, paired over the test images they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.method.rows import Labels, Matrix64


def image_covariance(right: Sequence[np.ndarray], tasks: Sequence[Labels], images: Sequence[Labels]) -> Matrix64:
    """Return the covariance of M methods' final accuracies A_T, due to which images are tested.

    A_T is a weighted mean of right and wrong answers, so its variance is the sum over images of the
    squared deviations of what each adds. An image in the test sets of several seeds counts once, with all
    that it adds: its answers are not independent. The variance of a difference of methods a and b is
    ``C[a, a] + C[b, b] - 2 C[a, b]``; where both answer alike, it is 0, however uncertain each is.

    Parameters
    ----------
    right : sequence of ndarray of shape (M, n)
        For each seed, whether each method is right about each of its n test images after the last task.
    tasks : sequence of ndarray of shape (n,)
        The task of each test image.
    images : sequence of ndarray of shape (n,)
        The row of each test image in the domain, by which it is known in other seeds.

    Returns
    -------
    ndarray of shape (M, M)
        Of fractions, not of percent.

    Examples
    --------
    >>> answers, task = np.array([[1, 0, 1, 0], [1, 0, 1, 1]]), np.zeros(4, int)
    >>> image_covariance([answers], [task], [np.arange(4)]).round(4)
    array([[0.0625, 0.0312],
           [0.0312, 0.0469]])
    """
    added = np.zeros((1 + max(int(rows.max()) for rows in images), len(right[0])))
    for answers, task, rows in zip(right, tasks, images, strict=True):
        T = len(np.unique(task))
        for t in np.unique(task):
            of_task = answers[:, task == t].astype(np.float64)
            deviation = of_task - of_task.mean(axis=1, keepdims=True)
            added[rows[task == t]] += deviation.T / (len(right) * T * of_task.shape[1])
    covariance: Matrix64 = added.T @ added
    return covariance
