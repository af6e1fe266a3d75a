"""Adapting to target tasks in order, unlabelled and source-free, steps 2 to 9 of docs/method.md.

`pseudo_label` and `adapt_task` read the current task's target rows and the source *model*; what earlier tasks taught is
in the statistics alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method import kernel_lda, relabelling
from pipeline.method.alignment import aligned
from pipeline.method.entropy_weights import entropy_weights
from pipeline.method.fusion import fuse, gate
from pipeline.method.kernel_lda import Classifier, check_spread, filled_means
from pipeline.method.kernel_rows import KernelRows, Sharing, kernel_rows, not_shared
from pipeline.method.neighbours import neighbour_average, smoothed
from pipeline.method.prediction import klda_scores, voted
from pipeline.method.random_fourier_features import Basis
from pipeline.method.relabelling import RowSpace
from pipeline.method.row_reduction import RowReduction, reduce_here
from pipeline.method.rows import LabelledRows, Matrix64, TargetTask, Vector64
from pipeline.method.source_model import SourceModel
from pipeline.method.statistics_kinds import empty_statistics
from pipeline.method.task_statistics import ExactStatistics, LabelledTask, Statistics
from pipeline.method.variants import MethodOptions
from pipeline.method.within_scatter import Scatter, dense
from pipeline.method.zero_shot import clip_probabilities

__all__ = [
    "AdaptedTask",
    "PseudoLabels",
    "adapt_task",
    "adapt_tasks",
    "empty_statistics",
    "first_probabilities",
    "pseudo_label",
]


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """What a task's n images are taken for."""

    label: npt.NDArray[np.intp]  # (n,) class of each image
    fused: Matrix64  # (n, c) p̂ over the task's classes, eq. (14)
    weight: Vector64  # (n,) ω, eq. (18)
    kept: npt.NDArray[np.bool_]  # (n,) whether the image passed the gate and enters the statistics


@dataclass(frozen=True, eq=False)
class AdaptedTask:
    """What a task leaves behind beside the statistics."""

    classifier: Classifier  # the target's, of all classes seen
    first_labels: PseudoLabels
    labels: PseudoLabels  # the task's final labels


def pseudo_label(
    basis: Basis,
    task: TargetTask,
    source: SourceModel,
    options: MethodOptions,
    clip_scale: float,
    *,
    reduce_rows: RowReduction = reduce_here,
    shared: Sharing = not_shared,
) -> PseudoLabels:
    """Label a task's images by the source's classifier, aligned and fused with CLIP; steps 2, 5 and 7."""
    features = kernel_rows(basis, task, options.clip_in_kernel, shared)
    labeller = _Labeller(task, options, clip_scale, features, reduce_rows, shared)
    return labeller.first_labels(source)


def first_probabilities(
    basis: Basis,
    task: TargetTask,
    source: SourceModel,
    options: MethodOptions,
    clip_scale: float,
    *,
    reduce_rows: RowReduction = reduce_here,
) -> Matrix64:
    """Return p̂ (n, c) of a task's images by the source's classifier, fused with CLIP and not aligned."""
    features = kernel_rows(basis, task, options.clip_in_kernel)
    labeller = _Labeller(task, options, clip_scale, features, reduce_rows, not_shared)
    return labeller.labels(labeller.scores(source.classifier)).fused


@dataclass(frozen=True, eq=False)
class _Labeller:
    """Labels a task's images, in as many rounds as are asked for."""

    task: TargetTask
    options: MethodOptions
    clip_scale: float
    features: KernelRows
    reduce_rows: RowReduction
    shared: Sharing

    @cached_property
    def clip(self) -> Matrix64:
        """p_VLM (n, c), eq. (1)."""
        scale = self.options.clip_logit_scale(self.clip_scale)
        return clip_probabilities(self.task.cosines, scale, self.task.classes)

    @cached_property
    def neighbour_average(self) -> Any:
        """M (n, n) of `neighbours`, sparse: of fewer where half the mean class size is less."""
        k = min(self.options.neighbours, len(self.task) // (2 * len(self.task.classes)))
        return self.shared(("neighbours", id(self.task), k), lambda: neighbour_average(self.task.views["original"], k))

    def first_labels(self, source: SourceModel) -> PseudoLabels:
        """Return the labels that the source's classifier gives the task."""
        scores = self.scores(source.classifier)
        if self.options.align_means and self.options.use_clip and len(self.task):
            shares = self.clip.mean(axis=0)
            scores = aligned(scores, source.classifier, source.means, self.task.classes, shares)
        return self.labels(scores)

    def scores(self, classifier: Classifier) -> Matrix64:
        """Return F of the views that label, (V, n, c), eq. (13)."""
        classes, views = self.task.classes, self.options.label_views
        return klda_scores(self.features, classifier, classes, views, reduce_rows=self.reduce_rows)

    def labels(self, scores: Matrix64) -> PseudoLabels:
        """Return the labels from scores (V, n, c) of the views that label: steps 2, 5 and 7."""
        options = self.options
        fused = fuse(voted(scores, options), self.clip, options.fusion(at_test=False))  # (14)
        if options.neighbours:
            fused = smoothed(fused, self.neighbour_average)
        weight = np.ones(len(fused))
        if options.use_weights:
            weight = entropy_weights(fused, floor=options.weight_floor)  # (18)
        label = self.task.classes[fused.argmax(axis=1)]
        return PseudoLabels(label, fused, weight, gate(fused, options.threshold))


def adapt_task(
    basis: Basis,
    statistics: Statistics,
    task: TargetTask,
    labels: PseudoLabels | None,
    *,
    source: SourceModel,
    options: MethodOptions,
    clip_scale: float,
    reduce_rows: RowReduction = reduce_here,
    shared: Sharing = not_shared,
) -> tuple[Statistics, AdaptedTask]:
    """Add a task to the target's statistics, (16), (17), and solve for the classifier.

    With ``options.rounds``, the new classifier labels the task again, fused with CLIP, and the task is added anew; no
    row of an earlier task is read. A relative ridge is set by the first labels and stays.

    Parameters
    ----------
    statistics : Statistics
        Of the earlier tasks, from `empty_statistics` on. They stay as they are.
    labels : PseudoLabels, optional
        The first labels. None to make them with the source's classifier.
    source : SourceModel
        The source model after the same task.
    shared : callable
        With which the features and neighbours of the task are shared with other runs on the same object ``task``.

    Returns
    -------
    statistics : Statistics
        With the task.
    """
    features = kernel_rows(basis, task, options.clip_in_kernel, shared)
    labeller = _Labeller(task, options, clip_scale, features, reduce_rows, shared)
    step = _Step(statistics, task, source, options, labeller, features, reduce_rows)
    labels = labels or labeller.first_labels(source)
    return step.rounds_in_row_space(labels) if step.in_row_space(labels) else step.rounds(labels)


def adapt_tasks(
    basis: Basis,
    tasks: Iterable[TargetTask],
    sources: Iterable[SourceModel],
    options: MethodOptions,
    clip_scale: float,
    *,
    reduce_rows: RowReduction = reduce_here,
    shared: Sharing = not_shared,
) -> list[AdaptedTask]:
    """Adapt to target tasks in order; each is read once it is reached, and never again. See `adapt_task`."""
    statistics = empty_statistics(basis, options)
    adapted = []
    for task, source in zip(tasks, sources, strict=True):
        statistics, result = adapt_task(
            basis,
            statistics,
            task,
            None,
            source=source,
            options=options,
            clip_scale=clip_scale,
            reduce_rows=reduce_rows,
            shared=shared,
        )
        adapted.append(result)
    return adapted


@dataclass(frozen=True, eq=False)
class _Step:
    """One task's adaptation: what stays the same in its rounds."""

    statistics: Statistics
    task: TargetTask
    source: SourceModel
    options: MethodOptions
    labeller: _Labeller
    features: KernelRows
    reduce_rows: RowReduction

    def rounds(self, labels: PseudoLabels) -> tuple[Statistics, AdaptedTask]:
        """The general path: every round adds the task to the statistics and solves for a classifier."""
        first = labels
        updated = self._updated(labels)
        classifier, ridge = self._solved(updated, None)
        for _ in range(self.options.rounds):
            del updated  # the last round's D×D sums are freed before the next are made
            labels = self.labeller.labels(self.labeller.scores(classifier))
            updated = self._updated(labels)
            classifier, ridge = self._solved(updated, ridge)
        return updated, AdaptedTask(classifier, first, labels)

    def _updated(self, labels: PseudoLabels) -> Statistics:
        """Return the statistics with the task under these labels."""
        views = {view: self.features.views[view] for view in self.options.views}
        shares = None
        if self.options.responsibilities == "soft":
            shares = np.zeros((len(labels.label), int(self.task.classes.max()) + 1))
            shares[:, self.task.classes] = labels.fused
        rows = LabelledRows(views, labels.label, labels.weight, shares)
        if not labels.kept.all():
            rows = rows.take(np.flatnonzero(labels.kept))
        classes, count = self.task.classes, self.options.prior_count
        prior_means = self.source.means[classes] if count > 0 else None
        task = LabelledTask(self.features.basis, rows, classes, prior_means, count)
        return self.statistics.update(task, self.reduce_rows)

    def _scatter(self, statistics: Statistics) -> Scatter:
        """Return the within-class scatter, pooled with the source's if the options ask for it."""
        scatter = statistics.within()
        if self.source.scatter is not None and self.options.source_covariance:
            self.source.scatter.add_to(dense(scatter))
        return scatter

    def _solved(self, statistics: Statistics, ridge: float | None) -> tuple[Classifier, float]:
        """Return the classifier and the ridge in units of the scatter: the one given, or that of these statistics."""
        regularisation = self.options.regularisation()
        scatter, means = self._scatter(statistics), statistics.means()
        if ridge is None:
            ridge = regularisation.absolute_ridge(scatter, means, self.features.basis.D)
        classifier = kernel_lda.solve(
            filled_means(means, self.source.means),
            scatter,
            regularisation,
            ridge=ridge,
            priors=self._class_weights(statistics),
        )
        return classifier, ridge

    def _class_weights(self, statistics: Statistics) -> Vector64 | None:
        """Return the weights of all classes of the source, of which the target may have met fewer."""
        weight = statistics.weight()
        return self.options.class_weights(np.pad(weight, (0, len(self.source.means) - len(weight))))

    def in_row_space(self, labels: PseudoLabels) -> bool:
        """Return whether the rounds may run in the space of the task's rows, and cheaper."""
        options, classes = self.options, self.task.classes
        applies = (
            isinstance(self.statistics, ExactStatistics)
            # a class that comes back has earlier rows about its mean, which row space does not hold
            and not self.statistics.rows.weight[classes[classes < self.statistics.rows.C]].any()
            and options.regularisation() == kernel_lda.Regularisation(options.ridge)  # relative, divided
            and options.ridge > 0
            and options.threshold <= 0  # a gate that moves would change the rows themselves
            and len(labels.label) > 0
        )
        m = len(labels.label) * len(options.views) + len(self.task.classes)
        return applies and relabelling.cheaper(m, self.features.basis.width, options.rounds)

    def rounds_in_row_space(self, labels: PseudoLabels) -> tuple[Statistics, AdaptedTask]:
        """The fast path, see `relabelling`."""
        first = labels
        space = self._row_space(labels)
        for _ in range(self.options.rounds):
            counted = self.options.class_priors == "counted"
            scores = space.scores(self._responsibilities(labels), counted_priors=counted)
            by_view = scores.reshape(len(self.options.views), -1, scores.shape[1])
            labels = self.labeller.labels(by_view[: len(self.options.label_views)])
        updated = self._updated(labels)
        means = filled_means(updated.means(), self.source.means)
        priors = self._class_weights(updated)
        classifier = space.classifier(self._responsibilities(labels), means, priors)
        return updated, AdaptedTask(classifier, first, labels)

    def _row_space(self, labels: PseudoLabels) -> RowSpace:
        """Return the row space of the task, with the ridge of its first labels."""
        everything = np.arange(len(self.features))
        rows = np.vstack([self.features.deviations(view, everything) for view in self.options.views])
        fixed = dense(self._scatter(self.statistics))
        first = self._responsibilities(labels)
        trace = fixed.trace() + relabelling.within_trace(rows, first)
        check_spread(trace, fixed.total + float(first.sum()), self.source.means)
        return relabelling.row_space(
            fixed.triangle,
            self.options.ridge * trace / self.features.basis.D,
            rows,
            self.source.means[self.task.classes],
            prior_count=self.options.prior_count,
            total=fixed.total,
        )

    def _responsibilities(self, labels: PseudoLabels) -> Matrix64:
        """Return the weight of every view of every image, view after view, in each of the task's classes, (V·n, c)."""
        shares = labels.fused
        if self.options.responsibilities == "hard":
            shares = (labels.label[:, None] == self.task.classes).astype(np.float64)
        return np.tile(labels.weight[:, None] * shares, (len(self.options.views), 1))
