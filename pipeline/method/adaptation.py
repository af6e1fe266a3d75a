"""The protocol over arrays in memory: target tasks in order, unlabelled, source-free.

`pseudo_label` and `adapt_task` read the current task's target rows and the source *model*; earlier
tasks live on in the accumulators alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipeline.method import relabelling
from pipeline.method.class_statistics import Matrix64, Vector64
from pipeline.method.entropy_weights import entropy_weights
from pipeline.method.fusion import branch_probabilities, fuse, gate
from pipeline.method.joint_rows import kernel_features
from pipeline.method.kernel_lda import Classifier, averaged
from pipeline.method.moments import Accumulator, ExactMoments, LabelledTask, Moments
from pipeline.method.prediction import (
    CosineRows,
    clip_probabilities,
    klda_probabilities,
    logit_factor,
)
from pipeline.method.random_fourier_features import Basis
from pipeline.method.relabelling import RowLabels, RowSpace
from pipeline.method.row_ranges import RowRanges
from pipeline.method.source_model import (
    SourceModel,
    absolute_ridge,
    accumulator,
    check_spread,
    classifier_of,
)
from pipeline.method.task_features import Rows, TaskFeatures
from pipeline.method.variants import MethodOptions


@dataclass(frozen=True, eq=False)
class TargetTask:
    """The unlabelled rows of one target task.

    classes: the task's class set. views: embeddings (n, d) by view. cosines: (n, M) between each
    image and the text of every class of the benchmark, in CLIP's space. clip: (n, d') embeddings of
    the images there. elsewhere: who takes ranges of the rows if they are many.
    """

    classes: npt.NDArray[np.intp]
    views: Mapping[str, Rows]
    cosines: Matrix64 | CosineRows
    clip: Rows | None = None
    elsewhere: RowRanges | None = None

    def features(self, basis: Basis, options: MethodOptions) -> TaskFeatures:
        """Return the features of the kernel that the options ask for."""
        return kernel_features(basis, self.views, self.clip, options.clip_in_kernel, self.elsewhere)


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """For each image of a task: label (n,), p̂ over the task's classes (n, |C|), weight ω, kept."""

    label: npt.NDArray[np.intp]
    fused: Matrix64
    weight: Vector64
    kept: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AdaptedTask:
    """After a task: the target classifier of all classes seen, and the task's final labels."""

    classifier: Classifier
    labels: PseudoLabels


Running = Sequence[Accumulator]  # one for each basis of the ensemble


def nothing_yet(basis: Basis, options: MethodOptions) -> Running:
    """Return the accumulators of a target that no task has reached."""
    return [accumulator(basis.member(m), options, source=False) for m in range(basis.members)]


def pseudo_label(
    basis: Basis,
    task: TargetTask,
    classifier: Classifier,
    options: MethodOptions,
    clip_scale: float,
) -> PseudoLabels:
    """Label a task's images, steps 2, 5 and 7, with the source's classifier.

    clip_scale: the CLIP model's own logit scale.
    """
    return _label(task.features(basis, options), task, classifier, options, clip_scale)


def _label(
    features: TaskFeatures,
    task: TargetTask,
    classifier: Classifier,
    options: MethodOptions,
    clip_scale: float,
) -> PseudoLabels:
    p = klda_probabilities(features, classifier, task.classes, options, vote=options.vote_views)
    return fused_labels(p, task, options, clip_scale)


def fused_labels(
    p: Matrix64, task: TargetTask, options: MethodOptions, clip_scale: float
) -> PseudoLabels:
    """Return the labels from the KLDA branch's probabilities (n, |C|): steps 2, 5 and 7."""
    scale = options.clip_logit_scale(clip_scale)
    p_vlm = clip_probabilities(task.cosines, scale, task.classes)  # (1)
    fused = fuse(p, p_vlm, options.fusion(at_test=False))  # (14)
    kept = gate(fused, options.threshold)
    weight = np.ones(len(fused))
    if options.use_weights:
        weight = entropy_weights(fused, floor=options.weight_floor)  # (18)
    return PseudoLabels(task.classes[fused.argmax(axis=1)], fused, weight, kept)


def adapt_task(
    basis: Basis,
    running: Running,
    task: TargetTask,
    labels: PseudoLabels | None,
    *,
    source: SourceModel,
    options: MethodOptions,
    clip_scale: float,
    features: TaskFeatures | None = None,
) -> tuple[Running, AdaptedTask]:
    """Fold a task into the target statistics, (16), (17); return them and the new classifier.

    ``running`` is left as it was. With ``rounds``, the new classifier labels the task again, fused with CLIP, and the
    task is folded in anew; nothing of earlier tasks is read. The relative ridge is that of the first labels.
    labels: the first ones; None: by the source's classifier. features: of the task's views, if already made.
    """
    features = features or task.features(basis, options)
    if labels is None:
        labels = _label(features, task, source.classifier, options, clip_scale)
    step = _Step(basis, running, task, source, options, clip_scale, features)
    if step.in_row_space(labels):
        return step.rounds_in_row_space(labels)
    return step.rounds(labels)


@dataclass(frozen=True, eq=False)
class _Step:
    """One task's adaptation: what stays the same in its rounds."""

    basis: Basis
    running: Running
    task: TargetTask
    source: SourceModel
    options: MethodOptions
    clip_scale: float
    features: TaskFeatures

    def rounds(self, labels: PseudoLabels) -> tuple[Running, AdaptedTask]:
        """The general path: every round folds the task in and solves for a classifier."""
        ridges: list[float] = []
        for left in range(self.options.rounds, -1, -1):
            trial: Running = []  # the last round's D×D sums are let go before the next are made
            trial = self._folded(labels)
            classifier = self._solved(trial, ridges)
            if left:
                labels = _label(self.features, self.task, classifier, self.options, self.clip_scale)
        return trial, AdaptedTask(classifier, labels)

    def _solved(self, trial: Running, ridges: list[float]) -> Classifier:
        """Return the classifier of the statistics; ``ridges``, one per member, are set by the first that are solved."""
        members = []
        for m, member in enumerate(trial):
            moments = self._with_source(member.moments(), m)
            if len(ridges) <= m:
                ridges.append(absolute_ridge(moments, self.options, self.options.ridge))
            members.append(
                classifier_of(
                    moments,
                    self.options,
                    ridge=ridges[m],
                    fallback=self._source_means(m),
                    overwrite=self.options.source_covariance,
                )
            )
        return averaged(members)

    def in_row_space(self, labels: PseudoLabels) -> bool:
        """May the rounds run in the space of the task's rows, and is that cheaper?"""
        options = self.options
        fits = (
            all(isinstance(member, ExactMoments) for member in self.running)
            and (options.divide_scatter, options.shrinkage) == (True, None)
            and (options.ridge_kind, options.inverse) == ("relative", "cholesky")
            and options.ridge > 0
            and options.threshold <= 0  # a gate that moves would change the rows themselves
            and len(labels.label) > 0
        )
        m = len(labels.label) * len(options.views) + len(self.task.classes)
        D = self.basis.D // self.basis.members
        return fits and relabelling.cheaper(m, D, options.rounds)

    def rounds_in_row_space(self, labels: PseudoLabels) -> tuple[Running, AdaptedTask]:
        """The fast path, see `relabelling`."""
        spaces = [self._space(m, labels) for m in range(self.basis.members)]
        for _ in range(self.options.rounds):
            scores = np.mean([s.scores(self._rows(labels), self.options) for s in spaces], axis=0)
            labels = self._labels_of(scores)
        trial = self._folded(labels)
        members = [
            space.classifier(
                self._rows(labels), member.moments(), self._source_means(m), self.options
            )
            for m, (space, member) in enumerate(zip(spaces, trial, strict=True))
        ]
        return trial, AdaptedTask(averaged(members), labels)

    def _space(self, m: int, labels: PseudoLabels) -> RowSpace:
        known = self.running[m].moments()
        everything = np.arange(len(self.features))
        rows = np.vstack([self.features.of(view, everything, m) for view in self.options.views])
        fixed = self._with_source(known, m)
        scatter = fixed.scatter if fixed.scatter is not known.scatter else known.scatter.copy("F")
        C = len(self.task.classes)
        trace = np.trace(scatter) + relabelling.within_trace(rows, self._rows(labels), C)
        total = fixed.total + self._rows(labels).weight.sum()
        check_spread(float(trace), float(total), self._source_means(m))
        return relabelling.row_space(
            scatter,
            self.options.ridge * trace / len(scatter),
            rows,
            self._source_means(m)[self.task.classes],
            prior_count=self.options.prior_count,
            total=fixed.total,
        )

    def _rows(self, labels: PseudoLabels) -> RowLabels:
        """Return the labels of every view of every image, view after view."""
        views = len(self.options.views)
        own = labels.label - self.task.classes.min()
        return RowLabels(np.tile(own, views), np.tile(labels.weight, views))

    def _labels_of(self, scores: Matrix64) -> PseudoLabels:
        """Return new labels from the scores (V·n, |C|) of every view of every image."""
        logits = logit_factor(self.options) * scores.reshape(
            len(self.options.views), -1, scores.shape[1]
        )
        voters = logits if self.options.vote_views else logits[:1]
        own = np.arange(scores.shape[1])
        p = np.mean([branch_probabilities(voter, own) for voter in voters], axis=0)
        return fused_labels(p, self.task, self.options, self.clip_scale)

    def _folded(self, labels: PseudoLabels) -> Running:
        options, classes = self.options, self.task.classes
        return [
            member.with_task(
                LabelledTask(
                    self.features,
                    m,
                    options.views,
                    labels.label,
                    labels.weight,
                    labels.kept,
                    classes,
                    (self._source_means(m)[classes], options.prior_count)
                    if options.prior_count > 0
                    else None,
                )
            )
            for m, member in enumerate(self.running)
        ]

    def _source_means(self, m: int) -> Matrix64:
        return self.source.means[:, self.basis.columns[m]]

    def _with_source(self, moments: Moments, m: int) -> Moments:
        """Return the moments pooled with the source's scatter, each by its Σω, if so wished."""
        if not self.options.source_covariance:
            return moments
        spread = self.source.spreads[m]
        scatter = moments.scatter.copy(order="F")
        spread.add_to(scatter)
        return replace(
            moments,
            scatter=scatter,
            total=moments.total + spread.total,
            degrees=moments.degrees + spread.degrees,
        )


def run_problem(
    basis: Basis,
    tasks: Iterable[TargetTask],
    sources: Iterable[SourceModel],
    options: MethodOptions,
    clip_scale: float,
) -> list[AdaptedTask]:
    """Adapt to the target tasks in order; each is read once it is reached, and never again."""
    running = nothing_yet(basis, options)
    adapted = []
    for task, source in zip(tasks, sources, strict=True):
        running, result = adapt_task(
            basis, running, task, None, source=source, options=options, clip_scale=clip_scale
        )
        adapted.append(result)
    return adapted
