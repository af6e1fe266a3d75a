"""One seed of one problem, scored: accuracy of the method and of its reference rows, calibration, pseudo-labels.

Evaluation alone reads target labels, and nothing that adapts imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipeline.method.adaptation import PseudoLabels
from pipeline.method.class_statistics import Labels, Matrix64, Vector64
from pipeline.method.continual_metrics import (
    accuracy_matrix,
    expected_calibration_error,
    per_class_accuracy,
)
from pipeline.method.joint_rows import kernel_features
from pipeline.method.kernel_lda import Classifier
from pipeline.method.prediction import Prediction, predict
from pipeline.method.random_fourier_features import Basis
from pipeline.method.source_model import SourceModel
from pipeline.method.task_features import Rows
from pipeline.method.variants import MethodOptions

REFERENCES = ("source", "clip")  # predictors that do not adapt, scored beside the method
BRANCHES = ("klda", "clip", "fused")  # whose probabilities a prediction has


@dataclass(frozen=True, eq=False)
class TestImages:
    """The labelled test images of a target: views (n, d), cosines (n, C), labels and tasks (n,), CLIP (n, d')."""

    __test__ = False  # not for pytest, whatever its name

    views: Mapping[str, Rows]
    cosines: Matrix64
    labels: Labels
    tasks: Labels
    clip: Rows | None = None


@dataclass(frozen=True, eq=False)
class Said:
    """What a branch says of n images: the class it prefers (n,) and how probable it holds it (n,)."""

    label: Labels
    confidence: Vector64


@dataclass(frozen=True, eq=False)
class Scores:
    """What one seed gives.

    accuracy: (T, T) of the method; references: the same of predictors that do not adapt; ece: after the last task,
    of both branches and the fusion; per_class: (C,); predicted: (n,) after the last task; said: what each branch
    says then.
    """

    accuracy: Matrix64
    references: dict[str, Matrix64]
    ece: dict[str, float]
    per_class: Vector64
    predicted: Labels
    said: Mapping[str, Said] = field(default_factory=dict)


def score(
    basis: Basis,
    images: TestImages,
    sources: Sequence[SourceModel],
    classifiers: Sequence[Classifier],
    *,
    options: MethodOptions,
    clip_scale: float,
) -> Scores:
    """Score the models after every task on the test images of the tasks so far."""
    features = kernel_features(basis, images.views, images.clip, options.clip_in_kernel)

    def after_each_task(options: MethodOptions) -> list[Prediction]:
        return [
            predict(
                features,
                images.cosines,
                source=source,
                classifier=classifier,
                options=options,
                clip_scale=clip_scale,
            )
            for source, classifier in zip(sources, classifiers, strict=True)
        ]

    def matrix(predictions: Sequence[Prediction]) -> Matrix64:
        return accuracy_matrix([p.label for p in predictions], images.labels, images.tasks)

    own = after_each_task(options)
    last = own[-1]
    return Scores(
        accuracy=matrix(own),
        references={
            name: matrix(after_each_task(replace(options, predictor=name)))  # type: ignore[arg-type]
            for name in REFERENCES
        },
        ece={
            name: expected_calibration_error(getattr(last, name), images.labels)
            for name in BRANCHES
        },
        per_class=per_class_accuracy(last.label, images.labels, last.fused.shape[1]),
        predicted=last.label,
        said={name: _said(getattr(last, name)) for name in BRANCHES},
    )


def _said(probabilities: Matrix64) -> Said:
    return Said(probabilities.argmax(axis=1), probabilities.max(axis=1))


def pseudo_label_quality(labels: PseudoLabels, truth: Labels) -> tuple[float, float]:
    """Return the accuracy of a task's kept pseudo-labels, and the fraction kept."""
    kept = labels.kept
    accuracy = float(np.mean(labels.label[kept] == truth[kept])) if kept.any() else float("nan")
    return accuracy, float(np.mean(kept))
