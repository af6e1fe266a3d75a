"""The metrics of a run: accuracy matrix, averages, forgetting, per-class accuracy, and how sure A_T is.

a[k, j] is the accuracy on task j's test images after task k, over all classes seen so far; above
the diagonal it is NaN. A_k = mean_{j ≤ k} a[k, j], the headline is A_T.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.errors import InputError
from pipeline.method.rows import Labels, Matrix64, Vector64


def accuracy_matrix(predictions: Sequence[Labels], labels: Labels, tasks: Labels) -> Matrix64:
    """Return the accuracy matrix a.

    Parameters
    ----------
    predictions : sequence of ndarray of shape (n,)
        Predicted classes after each of T tasks; those of images of later tasks are not used.
    labels, tasks : ndarray of shape (n,)
        The true class and the task, from 0, of each test image. A task without test images is an error.

    Returns
    -------
    ndarray of shape (T, T)

    Examples
    --------
    >>> predictions = [np.array([0, 0]), np.array([1, 1])]
    >>> accuracy_matrix(predictions, np.array([0, 1]), np.array([0, 1]))
    array([[ 1., nan],
           [ 0.,  1.]])
    """
    T = len(predictions)
    accuracy = np.full((T, T), np.nan)
    for j in range(T):
        members = tasks == j
        if not members.any():
            raise InputError(
                f"task {j + 1} of {T} has no test image to score: give more images or raise data.test_fraction"
            )
        for k in range(j, T):
            accuracy[k, j] = np.mean(predictions[k][members] == labels[members])
    return accuracy


def accuracy_after_each_task(accuracy: Matrix64) -> Vector64:
    """Return A_k = mean_{j ≤ k} a[k, j], (T,)."""
    return np.array([accuracy[k, : k + 1].mean() for k in range(len(accuracy))])


def final_accuracy(accuracy: Matrix64) -> float:
    """Return A_T, the headline."""
    return float(accuracy_after_each_task(accuracy)[-1])


def average_incremental_accuracy(accuracy: Matrix64) -> float:
    """Return the mean of A_1 … A_T."""
    return float(accuracy_after_each_task(accuracy).mean())


def forgetting_per_task(accuracy: Matrix64) -> Vector64:
    """Return max_k a[k, j] − a[T, j] of every task but the last, (T − 1,)."""
    return np.array([np.nanmax(accuracy[:, j]) - accuracy[-1, j] for j in range(len(accuracy) - 1)])


def forgetting(accuracy: Matrix64) -> float:
    """Return mean_{j < T} (max_k a[k, j] − a[T, j]); 0 for a single task."""
    return float(forgetting_per_task(accuracy).mean()) if len(accuracy) > 1 else 0.0


def per_class_accuracy(predictions: Labels, labels: Labels, C: int) -> Vector64:
    """Return the accuracy of each class, (C,); NaN for a class without test images."""
    total = np.bincount(labels, minlength=C)
    right = np.bincount(labels[predictions == labels], minlength=C)
    return np.asarray(np.divide(right, total, out=np.full(C, np.nan), where=total > 0))


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
