"""Classes that a stream meets and its source never had: they start from their CLIP name.

The source has neither a mean nor a discriminant of such a class, so CLIP speaks in its place: in the first labels the
class has CLIP's probability, and the source divides the rest among its own classes; the prior mean of the class is
that of the images which CLIP takes for it. From then on it has statistics like any other class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from pipeline.method.adaptation import PseudoLabels, fused_labels
from pipeline.method.prediction import klda_probabilities
from pipeline.method.referee import Referee
from pipeline.method.rows import Index, Matrix, TargetTask, Vector64, row_blocks, unit_rows
from pipeline.method.source_model import SourceModel
from pipeline.problem.opened_step import OpenedStep

BLOCK = 1024  # images whose features are in memory at once


def source_with_new_classes(step: OpenedStep, referee: Referee) -> SourceModel:
    """Return the step's source model with means of the classes that the stream meets for the first time."""
    new = np.flatnonzero(np.isnan(step.source.means).any(axis=1))
    if not len(new):
        return step.source
    task = step.task(np.arange(len(step.images)))
    features, clip = referee.features(task), referee.clip(task.cosines, task.classes)
    means, embedding_means = step.source.means.copy(), step.source.embedding_means.copy()
    for label in new:
        p = clip[:, step.classes == label].ravel()
        taken = np.where(clip.argmax(axis=1) == np.searchsorted(step.classes, label), p, 0.0)
        weight = taken if taken.any() else p
        means[label] = _weighted_mean(partial(features.deviations, "original"), weight)
        embedding_means[label] = _weighted_mean(lambda index: unit_rows(task.views["original"][index]), weight)
    return replace(step.source, means=means, embedding_means=embedding_means)


def first_labels(step: OpenedStep, referee: Referee, task: TargetTask) -> PseudoLabels | None:
    """Return the first labels of a task that may hold classes the source never had; None if it may not."""
    options, new = step.options, np.isin(task.classes, step.unknown_to_source)
    if not new.any() or not len(task):
        return None
    clip = referee.clip(task.cosines, task.classes)
    p = clip.copy()
    if not new.all():
        known = klda_probabilities(
            referee.features(task), step.source.classifier, task.classes[~new], options,
            vote=options.vote_views, reduce_rows=referee.reduce_rows,
        )  # fmt: skip
        p[:, ~new] = known * (1 - clip[:, new].sum(axis=1, keepdims=True))
    return fused_labels(p, clip, task.classes, options)


def _weighted_mean(rows: Callable[[Index], Matrix], weight: Vector64) -> Vector64:
    """Return the weighted mean of the rows that ``rows`` returns for row numbers, read in blocks."""
    total = sum(weight[index] @ rows(index) for index in row_blocks(len(weight), BLOCK))
    return np.asarray(total / weight.sum(), dtype=np.float64)
