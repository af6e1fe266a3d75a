"""Adapt to one step of a stream: add its images to the statistics of all earlier steps, and label them.

A class that the source never had starts from its name in CLIP, because the source has neither a mean nor a discriminant
for it. Its probability in the first labels is CLIP's, and the source divides the rest among its own classes. Its prior
mean is the mean of the images that CLIP assigns to it. From then on it has statistics like any other class.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pipeline.method.adaptation import Referee, adapt_task, labels_from_probabilities, task_with_source_prior
from pipeline.method.fusion import PseudoLabels, fuse
from pipeline.method.kernel_directions import in_all_features
from pipeline.method.kernel_lda import Classifier
from pipeline.method.prediction import Prediction, klda_probabilities
from pipeline.method.rejection import RejectionState, class_directions, empty_state, reject, rejector
from pipeline.method.rows import Index, Matrix, Matrix64, RowReduction, TargetTask, Vector64, row_blocks, unit_rows
from pipeline.method.source_model import SourceModel
from pipeline.method.task_statistics import ExactStatistics, empty_statistics
from pipeline.problem.opened_step import OpenedStep
from pipeline.store.stream_state import StreamState

BLOCK = 1024  # number of images whose features are in memory at once


def source_with_new_classes(step: OpenedStep, referee: Referee) -> SourceModel:
    """Return the step's source model with means for the classes that the stream meets for the first time."""
    new = np.flatnonzero(np.isnan(step.source.means).any(axis=1))
    if not len(new):
        return step.source
    task = step.task(np.arange(len(step.images)))
    features, clip = referee.features(task), referee.clip(task.cosines, task.classes)
    means, embedding_means = step.source.means.copy(), step.source.embedding_means.copy()
    for label in new:
        p = clip[:, step.classes == label].ravel()
        assigned = np.where(clip.argmax(axis=1) == np.searchsorted(step.classes, label), p, 0.0)
        weight = assigned if assigned.any() else p
        means[label] = _weighted_mean(partial(features.deviations, "original"), weight)
        embedding_means[label] = _weighted_mean(lambda index: unit_rows(task.views["original"][index]), weight)
    return replace(step.source, means=means, embedding_means=embedding_means)


def labels_with_new_classes(step: OpenedStep, referee: Referee, task: TargetTask) -> PseudoLabels | None:
    """Return the first labels of a task if it may have classes that the source never had, otherwise None."""
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
    return labels_from_probabilities(p, clip, task.classes, options)


def previous_rejection(step: OpenedStep, source: SourceModel) -> tuple[RejectionState, Matrix64]:
    """Return the rejection sums of the earlier steps and the directions (K', d) of the step's `rejecting_classes`.

    Each class keeps the direction with which its sums were made, also a class whose images arrive only now. For a class
    that the source never had, direction (from ``source``) and sums begin at the step in which the stream meets it.
    """
    source_means = np.stack(list(step.class_means.values()))
    directions = dict(zip(step.class_means, class_directions(source_means), strict=True))
    state, moments = empty_state(source_means.shape[1]), {}
    previous = step.previous_state
    if previous is not None and previous.rejection is not None and previous.directions is not None:
        state, names = previous.rejection, previous.rejecting_classes
        directions |= dict(zip(names, previous.directions, strict=True))
        moments = dict(zip(names, state.moments.T, strict=True))
    for name, mean in zip(step.order, source.embedding_means, strict=True):
        if name not in directions:
            (directions[name],) = class_directions(mean[None], source_means)
    columns = [moments.get(name, np.zeros(5)) for name in step.rejecting_classes]
    state = replace(state, moments=np.stack(columns, axis=1))
    return state, np.stack([directions[name] for name in step.rejecting_classes])


def _weighted_mean(rows: Callable[[Index], Matrix], weight: Vector64) -> Vector64:
    """Return the weighted mean of all rows; ``rows`` maps row numbers to rows and is called block by block."""
    total = sum(weight[index] @ rows(index) for index in row_blocks(len(weight), BLOCK))
    return np.asarray(total / weight.sum(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class AdaptedStep:
    """The results of a step with n images and c classes."""

    state: StreamState  # after this step; its summary is empty
    prediction: Prediction  # (n, c) probabilities of the step's images by the new classifier
    weight: Vector64  # (n,) weight with which each image entered the statistics


def adapt_step(seed_index: int, reduce_rows: RowReduction, *, step: OpenedStep) -> AdaptedStep:
    """Add a step's images to the statistics of all earlier steps and label them; ``seed_index`` is always 0."""
    del seed_index  # a stream has only one seed
    options, previous, all_rows = step.options, step.previous_state, np.arange(len(step.images))
    statistics = empty_statistics(step.basis, options) if previous is None else previous.statistics
    referee, weight = step.referee(reduce_rows), np.zeros(len(all_rows))
    source = source_with_new_classes(step, referee)
    corrected = np.array(sorted(step.corrected), dtype=np.intp)
    if len(corrected):
        weight[corrected] = step.entry.correction_weight
        features = referee.features(step.task(corrected))
        labels = np.array([step.corrected[int(row)] for row in corrected], dtype=np.intp)
        labelled = task_with_source_prior(features, labels, weight[corrected], step.classes, source, options)
        statistics = statistics.update(labelled, reduce_rows)
    others = np.setdiff1d(all_rows, corrected)
    task, rejection = step.task(others), None
    if options.reject != "none":
        rejection, directions = previous_rejection(step, source)
        rejection, unknown = reject(rejection, task, directions)
        others, task = others[~unknown], task.take(np.flatnonzero(~unknown))
    statistics, adapted = adapt_task(referee, task, source, statistics, labels_with_new_classes(step, referee, task))
    assert isinstance(statistics, ExactStatistics)  # noqa: S101  `OpenedStep` refuses the other kinds
    weight[others] = np.where(adapted.labels.kept, adapted.labels.weight, 0.0)
    rows = step.task(all_rows)
    prediction = _predicted(step, referee, rows, adapted.classifier)
    if rejection is not None:
        confidence = rejector(rejection, directions).confidence(rows)
        confidence[corrected] = 0.0
        prediction = replace(prediction, unknown=confidence)
    state = StreamState(
        step=step.name,
        steps_before=() if previous is None else (*previous.steps_before, previous.step),
        classes=step.order,
        prompts=step.prompts,
        origin=step.origin,
        statistics=statistics,
        classifier=in_all_features(step.basis, adapted.classifier),
        summary={},
        rejection=rejection,
        directions=None if rejection is None else directions,
    )
    return AdaptedStep(state, prediction, weight)


def _predicted(step: OpenedStep, referee: Referee, task: TargetTask, classifier: Classifier) -> Prediction:
    """Return the predictions of the classifier and CLIP over the step's classes; corrected images are certain."""
    options = step.options
    features, clip = referee.features(task), referee.clip(task.cosines, task.classes)
    klda = klda_probabilities(
        features, classifier, task.classes, options, vote=options.vote_at_test, reduce_rows=referee.reduce_rows
    )
    fused = fuse(klda, clip, options.fusion(at_test=True))
    for row, label in step.corrected.items():
        fused[row] = task.classes == label
    return Prediction(klda, clip, fused)
