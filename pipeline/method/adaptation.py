"""Adapt to unlabelled target tasks in order, without source data: steps 2, 3, 5 and 7 to 9 of docs/method.md.

Fitting the source (4) is in `source_model`; the views (6) are already made: the stage `embed` stores their embeddings.
`pseudo_label` and `adapt_task` read the current task's target rows and the source *model*. Everything learnt from
earlier tasks is in the statistics.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipeline.method import kernel_lda, relabelling
from pipeline.method.fusion import (
    PseudoLabels,
    aligned,
    entropy_weights,
    expected_shares,
    fuse,
    gate,
    nearest_neighbours,
    smoothed,
)
from pipeline.method.kernel_lda import Classifier, check_spread, filled_means
from pipeline.method.kernel_rows import KernelRows, Sharing, kernel_rows, no_sharing
from pipeline.method.prediction import klda_scores, voted
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import (
    Index,
    LabelledRows,
    Labels,
    Matrix64,
    RowReduction,
    Rows,
    Shares,
    TargetTask,
    UnlabelledRows,
    Vector64,
    reduce_locally,
)
from pipeline.method.source_model import SourceModel
from pipeline.method.task_statistics import ExactStatistics, LabelledTask, Statistics, empty_statistics
from pipeline.method.variants import MethodOptions
from pipeline.method.within_scatter import Scatter, dense
from pipeline.method.zero_shot import clip_probabilities


@dataclass(frozen=True, eq=False)
class Referee:
    """The method with one basis and one set of options, which stay the same from task to task."""

    basis: Basis
    options: MethodOptions
    clip_scale: float  # the CLIP model's own logit scale
    reduce_rows: RowReduction = reduce_locally
    # shares features and neighbours with other variants that run on the same images
    shared: Sharing = no_sharing

    def features(self, images: UnlabelledRows) -> KernelRows:
        """Return the kernel's input rows of the images, which give their features."""
        return kernel_rows(self.basis, images, self.options.clip_in_kernel, self.shared)

    def clip(self, cosines: Rows, classes: Labels) -> Matrix64:
        """Return p_VLM (n, c) over ``classes`` (c,), eq. (1), of cosines (n, C)."""
        return clip_probabilities(cosines, self.options.clip_logit_scale(self.clip_scale), classes)


@dataclass(frozen=True, eq=False)
class AdaptedTask:
    """The classifier and the labels after a task."""

    classifier: Classifier  # of the target, for all classes seen
    labels: PseudoLabels  # the task's final labels


def pseudo_label(referee: Referee, task: TargetTask, source: SourceModel) -> PseudoLabels:
    """Label a task's images with the source's classifier, aligned and fused with CLIP: steps 2, 5 and 7."""
    return _TaskAdaptation(referee, task, source).first_labels()


def labels_from_probabilities(
    p: Matrix64, clip: Matrix64, classes: Labels, options: MethodOptions, nearest: Index | None = None
) -> PseudoLabels:
    """Return the labels from the probabilities p and ``clip`` (n, c) of ``classes`` (c,): steps 5 and 7.

    ``nearest`` holds the row numbers (n, k) of the nearest images, over which p̂ is averaged.
    """
    fused = fuse(p, clip, options.fusion(at_test=False))  # (14)
    if nearest is not None:
        fused = smoothed(fused, nearest)
    weight = entropy_weights(fused, floor=options.weight_floor) if options.use_weights else np.ones(len(fused))  # (18)
    return PseudoLabels(classes[fused.argmax(axis=1)], fused, weight, gate(fused, options.threshold))


def task_with_source_prior(  # noqa: PLR0917  images, labels and model come in the same order everywhere
    features: KernelRows,
    labels: Shares,
    weights: Vector64,
    classes: Labels,
    source: SourceModel,
    options: MethodOptions,
) -> LabelledTask:
    """Return a `LabelledTask` of images with labels (n,) or shares (n, K); its prior means are the source's."""
    rows = LabelledRows({view: features.views[view] for view in options.views}, labels, weights)
    prior_means = source.means[classes] if options.prior_count > 0 else None
    return LabelledTask(features.basis, rows, classes, prior_means, options.prior_count)


def adapt_task(
    referee: Referee, task: TargetTask, source: SourceModel, statistics: Statistics, labels: PseudoLabels | None = None
) -> tuple[Statistics, AdaptedTask]:
    """Add a task to the target's statistics, (16), (17), and solve for the classifier.

    In each of ``options.rounds`` rounds, the new classifier, fused with CLIP, relabels the task, and its contribution
    to the statistics is replaced; no row of an earlier task is read. A relative ridge is computed from the first labels
    and kept. ``source`` is the model after the same task. ``statistics`` are those of the earlier tasks and are not
    modified. ``labels`` are the first labels, by default those of `pseudo_label`.
    """
    adaptation = _TaskAdaptation(referee, task, source)
    labels = labels or adaptation.first_labels()
    run_rounds = adaptation.rounds_in_row_space if adaptation.in_row_space(statistics) else adaptation.rounds
    return run_rounds(statistics, labels)


def adapt_tasks(referee: Referee, tasks: Iterable[TargetTask], sources: Iterable[SourceModel]) -> list[AdaptedTask]:
    """Adapt to target tasks in order with `adapt_task`; each task is read when it is reached and never again."""
    statistics, adapted = empty_statistics(referee.basis, referee.options), []
    for task, source in zip(tasks, sources, strict=True):
        statistics, result = adapt_task(referee, task, source, statistics)
        adapted.append(result)
    return adapted


@dataclass(frozen=True, eq=False)
class _TaskAdaptation:
    """Adaptation to one task, with everything that stays the same in all rounds of labelling."""

    referee: Referee
    task: TargetTask
    source: SourceModel

    @property
    def options(self) -> MethodOptions:
        return self.referee.options

    @cached_property
    def features(self) -> KernelRows:
        return self.referee.features(self.task)

    @cached_property
    def clip(self) -> Matrix64:
        """p_VLM (n, c), eq. (1)."""
        return self.referee.clip(self.task.cosines, self.task.classes)

    @cached_property
    def nearest(self) -> Index | None:
        """Row numbers (n, k) of the nearest images, k at most half the mean class size; None if not used."""
        if not self.options.neighbours:
            return None
        k = min(self.options.neighbours, len(self.task) // (2 * len(self.task.classes)))
        return self.referee.shared(
            ("neighbours", self.task, k), lambda: nearest_neighbours(self.task.views["original"], k)
        )

    def first_labels(self) -> PseudoLabels:
        """Return the labels given by the source's classifier."""
        source, classes = self.source, self.task.classes
        scores = self._scores(source.classifier)
        if self.options.align_means and self.options.use_clip and len(self.task):
            scores = aligned(scores, source.classifier, source.means, classes, expected_shares(self.clip))
        return self._labels_from_scores(scores)

    def _scores(self, classifier: Classifier) -> Matrix64:
        """Return F of the voting views, (V, n, c), eq. (13)."""
        of_task = classifier.for_classes(self.task.classes)
        return klda_scores(self.features, of_task, self.options.label_views, self.referee.reduce_rows)

    def _labels_from_scores(self, scores: Matrix64) -> PseudoLabels:
        """Return the labels from the scores (V, n, c) of the voting views."""
        p = voted(scores, self.options)
        return labels_from_probabilities(p, self.clip, self.task.classes, self.options, self.nearest)

    def rounds(self, statistics: Statistics, labels: PseudoLabels) -> tuple[Statistics, AdaptedTask]:
        """Relabel on the general path: every round adds the task to the statistics and solves for a classifier."""
        updated = self._add_to(statistics, labels)
        classifier, ridge = self._solve(updated, None)
        for _ in range(self.options.rounds):
            before, labels = labels, self._labels_from_scores(self._scores(classifier))
            updated = self._replace_labels(statistics, updated, before, labels)
            classifier, ridge = self._solve(updated, ridge)
        return updated, AdaptedTask(classifier, labels)

    def _replace_labels(
        self, statistics: Statistics, updated: Statistics, before: PseudoLabels, labels: PseudoLabels
    ) -> Statistics:
        """Return the statistics with the task relabelled; ``updated``, with the labels ``before``, is overwritten."""
        if (
            isinstance(statistics, ExactStatistics)
            and isinstance(updated, ExactStatistics)
            and self.options.threshold <= 0  # with a gate, rounds would not use the same rows
            and self.referee.reduce_rows is reduce_locally  # others return new sums, not corrected ones
        ):
            return statistics.relabelled(self._to_labelled_task(labels), updated, before.weight)
        return self._add_to(statistics, labels)

    def _add_to(self, statistics: Statistics, labels: PseudoLabels) -> Statistics:
        """Return the statistics with the task added under these labels."""
        return statistics.update(self._to_labelled_task(labels), self.referee.reduce_rows)

    def _to_labelled_task(self, labels: PseudoLabels) -> LabelledTask:
        """Return the images that passed the gate, with their labels, as a task to add to the statistics."""
        classes = self.task.classes
        shares: Shares = labels.label
        if self.options.responsibilities == "soft":
            shares = np.zeros((len(self.task), int(classes.max()) + 1))
            shares[:, classes] = labels.fused
        task = task_with_source_prior(self.features, shares, labels.weight, classes, self.source, self.options)
        if not labels.kept.all():
            task = replace(task, images=task.images.take(np.flatnonzero(labels.kept)))
        return task

    def _scatter(self, statistics: Statistics) -> Scatter:
        """Return the within-class scatter, pooled with the source's if ``source_covariance`` is set."""
        scatter = statistics.within()
        if self.source.scatter is not None and self.options.source_covariance:
            self.source.scatter.add_to(dense(scatter))
        return scatter

    def _solve(self, statistics: Statistics, ridge: float | None) -> tuple[Classifier, float]:
        """Return the classifier and its ridge in units of the scatter, computed from the statistics if not given."""
        regularisation = self.options.regularisation()
        scatter, means = self._scatter(statistics), statistics.means()
        if ridge is None or not regularisation.relative:
            ridge = regularisation.absolute_ridge(scatter, means, self.referee.basis.D)
        means, priors = self._means_and_priors(statistics)
        return kernel_lda.solve(means, scatter, regularisation, ridge=ridge, priors=priors), ridge

    def _means_and_priors(self, statistics: Statistics) -> tuple[Matrix64, Vector64 | None]:
        """Return means and weights of all classes of the source model; the target may have seen fewer."""
        means = filled_means(statistics.means(), self.source.means)
        weight = statistics.weight()
        return means, self.options.class_weights(np.pad(weight, (0, len(means) - len(weight))))

    def in_row_space(self, statistics: Statistics) -> bool:
        """Return whether the rounds can run in the space of the task's rows and are cheaper there."""
        options, classes = self.options, self.task.classes
        regularisation = options.regularisation()
        applies = (
            isinstance(statistics, ExactStatistics)
            # the earlier rows of a returning class are not in the row space
            and not statistics.totals.weight[classes[classes < statistics.totals.C]].any()
            and regularisation.relative
            and regularisation.divide
            and regularisation.shrinkage is None
            and regularisation.ridge > 0
            and options.threshold <= 0  # with a gate, rounds would not use the same rows
            and len(self.task) > 0
        )
        m = len(self.task) * len(options.views) + len(classes)
        return applies and relabelling.row_space_is_cheaper(m, self.referee.basis.width, options.rounds)

    def rounds_in_row_space(self, statistics: Statistics, labels: PseudoLabels) -> tuple[Statistics, AdaptedTask]:
        """Relabel on the fast path, see `relabelling`."""
        space = self._row_space(statistics, labels)
        for _ in range(self.options.rounds):
            counted = self.options.class_priors == "counted"
            scores = space.scores(self._responsibilities(labels), counted_priors=counted)
            by_view = scores.reshape(len(self.options.views), -1, scores.shape[1])
            # the views of the rows are in the order of ``views``, and ``label_views`` are the first of them
            labels = self._labels_from_scores(by_view[: len(self.options.label_views)])
        updated = self._add_to(statistics, labels)
        classifier = space.classifier(self._responsibilities(labels), *self._means_and_priors(updated))
        return updated, AdaptedTask(classifier, labels)

    def _row_space(self, statistics: Statistics, labels: PseudoLabels) -> relabelling.RowSpace:
        """Return the row space of the task, with the ridge computed from its first labels."""
        index = np.arange(len(self.features))
        rows = np.vstack([self.features.deviations(view, index) for view in self.options.views])
        fixed = dense(self._scatter(statistics))
        first = self._responsibilities(labels)
        trace = fixed.trace() + relabelling.within_trace(rows, first)
        check_spread(trace, fixed.total + float(first.sum()), self.source.means)
        return relabelling.row_space(
            fixed.triangle,
            self.options.ridge * trace / self.referee.basis.D,
            rows,
            self.source.means[self.task.classes],
            prior_count=self.options.prior_count,
            total=fixed.total,
        )

    def _responsibilities(self, labels: PseudoLabels) -> Matrix64:
        """Return the weight of each image in each of the task's classes, repeated view by view, (V·n, c)."""
        shares = labels.fused
        if self.options.responsibilities == "hard":
            shares = (labels.label[:, None] == self.task.classes).astype(np.float64)
        return np.tile(labels.weight[:, None] * shares, (len(self.options.views), 1))
