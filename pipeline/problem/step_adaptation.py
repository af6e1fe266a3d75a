"""A step of a stream: its images are added to the statistics of all earlier ones, and labelled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.method.adaptation import adapt_task
from pipeline.method.fusion import fuse
from pipeline.method.kernel_directions import lifted
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import Prediction, klda_probabilities
from pipeline.method.rejection import RejectionState, empty_state, reject, rejector
from pipeline.method.row_reduction import RowReduction
from pipeline.method.rows import LabelledRows, Matrix64, TargetTask, Vector64
from pipeline.method.source_model import SourceModel
from pipeline.method.statistics_kinds import empty_statistics
from pipeline.method.task_statistics import ExactStatistics, LabelledTask
from pipeline.problem.new_classes import first_labels, source_with_new_classes
from pipeline.problem.opened_step import Index, OpenedStep
from pipeline.store.stream_state import StreamState


@dataclass(frozen=True, eq=False)
class StepResult:
    """What a step computes.

    Attributes
    ----------
    statistics : ExactStatistics
        Of all images of all steps so far.
    classifier : Classifier
    prediction : Prediction
        What the new classifier says of the step's n images, over the c classes of the step.
    weight : ndarray of shape (n,)
        With which each image entered the statistics.
    rejection : RejectionState, optional
        Of all images so far, where images are rejected.
    class_means : ndarray of shape (K, d)
        Of unit embeddings, which rejection rests on.
    """

    statistics: ExactStatistics
    classifier: Classifier
    prediction: Prediction
    weight: Vector64
    rejection: RejectionState | None
    class_means: Matrix64


def adapt_step(index: int, reduce_rows: RowReduction, *, step: OpenedStep) -> StepResult:
    """Add a step's images to the statistics of all earlier ones, and label them.

    Parameters
    ----------
    index : int
        Not used: a stream has one seed; `Executor.for_each_seed` gives it.
    reduce_rows : RowReduction
        Who does the work on the rows.
    step : OpenedStep

    Returns
    -------
    StepResult
    """
    del index
    options, everything = step.options, np.arange(len(step.images))
    corrected = np.array(sorted(step.corrected), dtype=np.intp)
    statistics = empty_statistics(step.basis, options)
    if step.before is not None:
        statistics = step.before.statistics
    weight = np.zeros(len(everything))
    source = source_with_new_classes(step)
    if len(corrected):
        labelled = _corrected_task(step, source, corrected)
        statistics = statistics.update(labelled, reduce_rows)
        weight[corrected] = step.settings.correction_weight
    others = np.setdiff1d(everything, corrected)
    task, rejection = step.task(others), None
    if options.reject != "none":
        rejection = step.before.rejection if step.before else None
        rejection = rejection or empty_state(source.embedding_means.shape[1])
        rejection, unknown = reject(rejection, task, source.embedding_means)
        others, task = others[~unknown], task.take(np.flatnonzero(~unknown))
    statistics, adapted = adapt_task(
        step.basis,
        task,
        source,
        options,
        step.prompts.logit_scale,
        statistics=statistics,
        labels=first_labels(step, task, reduce_rows),
        reduce_rows=reduce_rows,
    )
    if not isinstance(statistics, ExactStatistics):  # `open_step` refuses the other kinds
        raise TypeError(type(statistics).__name__)
    weight[others] = np.where(adapted.labels.kept, adapted.labels.weight, 0.0)
    rows = step.task(everything)
    prediction = _predicted(step, rows, adapted.classifier, reduce_rows)
    if rejection is not None:
        unknown_confidence = rejector(rejection, source.embedding_means).confidence(rows)
        unknown_confidence[corrected] = 0.0
        prediction = replace(prediction, unknown=unknown_confidence)
    means = source.embedding_means
    return StepResult(statistics, adapted.classifier, prediction, weight, rejection, means)


def _corrected_task(step: OpenedStep, source: SourceModel, corrected: Index) -> LabelledTask:
    """Return the images that a person looked at as rows of certain labels."""
    features = kernel_rows(step.basis, step.task(corrected), step.options.clip_in_kernel)
    labels = np.array([step.corrected[int(row)] for row in corrected], dtype=np.intp)
    weights = np.full(len(labels), step.settings.correction_weight)
    views = {view: features.views[view] for view in step.options.views}
    count = step.options.prior_count
    return LabelledTask(
        features.basis,
        LabelledRows(views, labels, weights),
        step.classes,
        source.means[step.classes] if count > 0 else None,
        count,
    )


def _predicted(step: OpenedStep, task: TargetTask, classifier: Classifier, reduce_rows: RowReduction) -> Prediction:
    """Return what the classifier and CLIP say of images, over the classes of the step; certain where corrected."""
    options = step.options
    features = kernel_rows(step.basis, task, options.clip_in_kernel)
    klda = klda_probabilities(
        features, classifier, task.classes, options, vote=options.vote_at_test, reduce_rows=reduce_rows
    )
    clip = step.clip(task)
    fused = fuse(klda, clip, options.fusion(at_test=True))
    for row, label in step.corrected.items():
        fused[row] = task.classes == label
    return Prediction(klda, clip, fused)


def state_after(step: OpenedStep, result: StepResult, summary: dict[str, Any]) -> StreamState:
    """Return the state to be written."""
    before = step.before
    return StreamState(
        step=step.settings.name,
        steps_before=() if before is None else (*before.steps_before, before.step),
        classes=step.order,
        prompts=step.prompts,
        origin=step.origin,
        statistics=result.statistics,
        classifier=lifted(step.basis, result.classifier),
        summary=summary,
        rejection=result.rejection,
        class_means=None if result.rejection is None else result.class_means,
    )
