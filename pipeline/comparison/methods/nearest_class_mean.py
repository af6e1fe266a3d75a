"""Nearest class mean of unit embeddings, in Euclidean distance: the simplest peer.

`nearest-class-mean` uses the means of the source's rows and never adapts. `nearest-class-mean-pseudo` uses the
weighted means of the target's pseudo-labelled rows. A class with no kept row has the source's mean. A class's mean is
final after its task.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.comparison.labelled_tasks import Fallback, TaskRows, peer_methods, target_test_rows
from pipeline.method.rows import Labels, Matrix64, unit_rows
from pipeline.method.zero_shot import nearest_mean
from pipeline.problem.seed import Seed


def fit(
    seed: Seed,  # noqa: ARG001
    tasks: Iterable[TaskRows],
    fallback: Fallback[Matrix64] | None,
) -> list[Matrix64]:
    """Return for each task the means (C_t, d) of its classes."""
    means = [task_means(task) for task in tasks]
    if fallback is None:
        return means
    return [np.where(np.isnan(own), source, own) for own, source in zip(means, fallback(), strict=True)]


def task_means(task: TaskRows) -> Matrix64:
    """Return the weighted means (C_t, d) of a task's unit rows, NaN for a class with no row."""
    one_hot = (task.labels == task.classes[:, None]) * task.weights  # (C_t, n)
    weight = one_hot.sum(axis=1, keepdims=True)
    sums = one_hot @ unit_rows(task.rows)
    return np.asarray(sums / np.where(weight > 0, weight, np.nan))


def predict(seed: Seed, means: Sequence[Matrix64]) -> list[Labels]:
    """Return the class (n,) of each test row after each task."""
    test = target_test_rows(seed)
    return [nearest_mean(test, np.vstack(means[: t + 1])) for t in range(len(means))]


METHODS = peer_methods("nearest-class-mean", "nearest class mean", fit, predict)
