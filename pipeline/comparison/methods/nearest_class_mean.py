"""Nearest class mean of unit embeddings, in Euclidean distance: the plainest peer.

`nearest-class-mean`: means of the source's rows, never adapted. `nearest-class-mean-pseudo`: means Σωx / Σω of the
target's pseudo-labelled rows; a class with no kept row has the source's mean. A class's mean is final after its task.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.comparison.labelled_tasks import LabelledTask, pseudo_labelled_tasks, source_tasks
from pipeline.comparison.problem import ComparedMethod, SeedProblem
from pipeline.method.blas_products import product
from pipeline.method.class_statistics import Labels, Matrix64
from pipeline.method.nearest_mean import nearest_mean
from pipeline.method.zero_shot import unit_rows


def new_means(task: LabelledTask) -> Matrix64:
    """Return the weighted means (|classes|, d) of a task's unit rows; NaN for a class with no row."""
    one_hot = (task.labels == np.sort(task.classes)[:, None]) * task.weights  # (|classes|, n)
    weight = one_hot.sum(axis=1, keepdims=True)
    sums = product(one_hot, unit_rows(task.rows))
    return np.asarray(sums / np.where(weight > 0, weight, np.nan))


def source_means(problem: SeedProblem) -> list[Matrix64]:
    """Return the source's means (|classes|, d) of each task's classes."""
    key = "nearest-class-mean: source"
    return problem.shared(key, lambda: [new_means(task) for task in source_tasks(problem)])


def pseudo_means(problem: SeedProblem) -> list[Matrix64]:
    """Return the target's means of each task's classes, the source's where no row was kept."""
    found = zip(pseudo_labelled_tasks(problem), source_means(problem), strict=True)
    return [_filled(new_means(task), of_source) for task, of_source in found]


def _filled(means: Matrix64, fallback: Matrix64) -> Matrix64:
    return np.where(np.isnan(means), fallback, means)


def _predict(problem: SeedProblem, means: Sequence[Matrix64]) -> list[Labels]:
    test = problem.test.views["original"]
    return [nearest_mean(test, np.vstack(means[: t + 1])) for t in range(len(means))]


METHODS = {
    "nearest-class-mean": ComparedMethod(
        lambda problem: _predict(problem, source_means(problem)), "nearest class mean", "peer"
    ),
    "nearest-class-mean-pseudo": ComparedMethod(
        lambda problem: _predict(problem, pseudo_means(problem)),
        "nearest class mean, pseudo-labels",
        "peer",
    ),
}
