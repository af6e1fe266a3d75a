"""What the source leaves behind: class means and one shared scatter after each task.

`fit_source` is the only function of the method that sees source rows and labels; the functions of
the target take a `SourceModel`, which holds neither.

Classes are numbered in the order in which they arrive: task t has the next ones, so that the
classes seen after task t are 0 … K−1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.errors import InputError, listed
from pipeline.method import kernel_lda
from pipeline.method.class_statistics import Labels, Matrix64
from pipeline.method.kernel_lda import Classifier
from pipeline.method.moments import (
    Accumulator,
    BatchCentredMoments,
    ExactMoments,
    Moments,
    PrintedMoments,
)
from pipeline.method.nearest_mean import class_means
from pipeline.method.random_fourier_features import Basis
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import Matrix


@dataclass(frozen=True, eq=False)
class SourceModel:
    """What the source leaves behind after a task: no row, no label.

    moments: class means and shared scatter of the K classes seen. classifier: of the same.
    embedding_means: (K, d) of the unit embeddings, for the nearest-mean reference row.
    """

    moments: Moments
    classifier: Classifier
    embedding_means: Matrix64


def fit_source(
    basis: Basis,
    views: Mapping[str, Matrix],
    labels: Labels,
    tasks: Sequence[Labels],
    options: MethodOptions,
) -> list[SourceModel]:
    """Return the source model after each task, from rows (n, d) by view and labels (n,).

    tasks: the class set of each task. A class without a row is an error. Of the views that the options ask for,
    those given are used: a domain that is only a source may have been embedded in the original alone.
    """
    check_task_order(tasks)
    running = accumulator(basis, options, source=True)
    models = []
    original = views["original"]
    used = [view for view in options.views_of_source if view in views]
    means = np.zeros((0, original.shape[1]))
    for classes in tasks:
        rows = np.isin(labels, classes)  # the task's alone: nothing earlier is read again
        ones = np.ones(int(rows.sum()))
        running.add_task([views[v][rows] for v in used], labels[rows], ones, classes, None)
        moments = running.moments()
        moments = replace(moments, scatter=moments.scatter.copy(order="F"))
        classifier = classifier_of(moments, options, ridge=options.source_ridge, fallback=None)
        new = class_means(original[rows], labels[rows] - classes.min(), len(classes))
        means = np.vstack([means, new])
        models.append(SourceModel(moments, classifier, means))
    return models


def accumulator(basis: Basis, options: MethodOptions, *, source: bool) -> Accumulator:
    """Return an empty accumulator; on the source side the printed equations are the exact ones."""
    if options.statistics == "batch_centred":
        return BatchCentredMoments(basis, options.batch_images)
    if options.statistics == "printed" and not source:
        return PrintedMoments(basis)
    return ExactMoments(basis)  # (9), (10): a running average is a covariance


def check_task_order(tasks: Sequence[Labels]) -> None:
    """Refuse class sets that are not 0, 1, 2, … over the tasks."""
    order = [int(c) for classes in tasks for c in sorted(classes)]
    if order != list(range(len(order))):
        raise InputError(f"tasks: classes must be numbered in the order of arrival, not {order}")


def classifier_of(
    moments: Moments, options: MethodOptions, *, ridge: float, fallback: Matrix64 | None
) -> Classifier:
    """Return the classifier of ``moments`` under the options' normalisation, ridge and inverse."""
    means = moments.means
    empty = np.asarray(np.isnan(means).any(axis=1))
    if empty.any() and fallback is None:
        names = listed(np.flatnonzero(empty))
        raise InputError(f"no sample of class {names}; give a fallback mean for it")
    if fallback is not None:
        means = np.where(empty.reshape(-1, 1), fallback, means)
    spread = moments.covariance() if options.divide_scatter else moments.scatter
    spread = kernel_lda.shrink(spread, options.shrinkage, moments.degrees)
    if options.ridge_kind == "relative":
        ridge = kernel_lda.relative_ridge(spread, ridge)
    return kernel_lda.discriminants(means, spread, ridge=ridge, route=options.inverse)
