"""The protocol over arrays in memory: target tasks in order, unlabelled, source-free.

`pseudo_label` and `adapt_task` read the current task's target rows and the source *model*; earlier
tasks live on in the accumulator alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipeline.method.class_statistics import Matrix64, Vector64
from pipeline.method.entropy_weights import entropy_weights
from pipeline.method.fusion import branch_probabilities, fuse, gate
from pipeline.method.kernel_lda import Classifier
from pipeline.method.moments import Accumulator, Moments
from pipeline.method.prediction import klda_probabilities
from pipeline.method.random_fourier_features import Basis
from pipeline.method.source_model import SourceModel, accumulator, classifier_of
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import Matrix


@dataclass(frozen=True, eq=False)
class TargetTask:
    """The unlabelled rows of one target task.

    classes: the task's class set. views: embeddings (n, d) by view. cosines: (n, M) between each
    image and the text of every class of the benchmark, in CLIP's space.
    """

    classes: npt.NDArray[np.intp]
    views: Mapping[str, Matrix]
    cosines: Matrix64


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


def pseudo_label(
    basis: Basis,
    task: TargetTask,
    classifier: Classifier,
    options: MethodOptions,
    clip_scale: float,
) -> PseudoLabels:
    """Label a task's images, steps 2, 5 and 7, with a classifier: the source's, or in later rounds ours.

    clip_scale: the CLIP model's own logit scale.
    """
    p = klda_probabilities(
        basis, classifier, task.views, task.classes, options=options, vote=options.vote_views
    )
    scale = options.clip_logit_scale(clip_scale)
    p_vlm = branch_probabilities(scale * task.cosines, task.classes)  # (1)
    fused = fuse(p, p_vlm, options.fusion(at_test=False))  # (14)
    kept = gate(fused, options.threshold)
    weight = np.ones(len(fused))
    if options.use_weights:
        weight = entropy_weights(fused, floor=options.weight_floor)  # (18)
    return PseudoLabels(task.classes[fused.argmax(axis=1)], fused, weight, kept)


def adapt_task(
    basis: Basis,
    running: Accumulator,
    task: TargetTask,
    labels: PseudoLabels,
    *,
    source: SourceModel,
    options: MethodOptions,
    clip_scale: float,
) -> tuple[Accumulator, AdaptedTask]:
    """Fold a task into the target statistics, (16), (17); return them and the new classifier.

    ``running`` is left as it was. With ``rounds``, the new classifier labels the task again, fused
    with CLIP, and the task is folded in anew; nothing of earlier tasks is read.
    """
    for left in range(options.rounds, -1, -1):
        trial = _folded(running, task, labels, source, options)
        moments = _with_source_scatter(trial.moments(), source, options)
        fallback = source.moments.means
        classifier = classifier_of(moments, options, ridge=options.ridge, fallback=fallback)
        if left:
            labels = pseudo_label(basis, task, classifier, options, clip_scale)
    return trial, AdaptedTask(classifier, labels)


def _folded(
    running: Accumulator,
    task: TargetTask,
    labels: PseudoLabels,
    source: SourceModel,
    options: MethodOptions,
) -> Accumulator:
    trial = running.copied()
    prior = None
    if options.prior_count > 0:
        prior = (source.moments.means[task.classes], options.prior_count)
    kept = labels.kept
    views = [task.views[name][kept] for name in options.views]
    trial.add_task(views, labels.label[kept], labels.weight[kept], task.classes, prior)
    return trial


def _with_source_scatter(moments: Moments, source: SourceModel, options: MethodOptions) -> Moments:
    if not options.source_covariance:
        return moments
    return replace(
        moments,
        scatter=moments.scatter + source.moments.scatter,
        total=moments.total + source.moments.total,
        degrees=moments.degrees + source.moments.degrees,
    )


def run_problem(
    basis: Basis,
    tasks: Iterable[TargetTask],
    sources: Sequence[SourceModel],
    options: MethodOptions,
    clip_scale: float,
) -> list[AdaptedTask]:
    """Adapt to the target tasks in order; each is read once it is reached, and never again."""
    running = accumulator(basis, options, source=False)
    adapted = []
    for task, source in zip(tasks, sources, strict=True):
        labels = pseudo_label(basis, task, source.classifier, options, clip_scale)
        running, result = adapt_task(
            basis, running, task, labels, source=source, options=options, clip_scale=clip_scale
        )
        adapted.append(result)
    return adapted
