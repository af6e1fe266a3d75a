"""One seed of one problem, scored: accuracy of the method and of its reference rows, calibration, pseudo-labels.

Evaluation alone reads target labels, and nothing that adapts imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pipeline.method.adaptation import PseudoLabels
from pipeline.method.class_statistics import Labels, Matrix64, Vector64
from pipeline.method.continual_metrics import (
    accuracy_matrix,
    calibration_error,
    per_class_accuracy,
)
from pipeline.method.joint_rows import kernel_features
from pipeline.method.kernel_lda import Classifier
from pipeline.method.prediction import CosineRows, predict
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_ranges import RowRanges
from pipeline.method.source_model import SourceModel
from pipeline.method.task_features import IMAGES, Rows, TaskFeatures, blocks_of, subset
from pipeline.method.variants import MethodOptions

SENT = 64 * IMAGES  # images at a time where others take ranges of them
REFERENCES = ("source", "clip")  # predictors that do not adapt, scored beside the method
BRANCHES = ("klda", "clip", "fused")  # whose probabilities a prediction has


@dataclass(frozen=True, eq=False)
class TestImages:
    """The labelled test images of a target: views (n, d), cosines (n, C), labels and tasks (n,), CLIP (n, d')."""

    __test__ = False  # not for pytest, whatever its name

    views: Mapping[str, Rows]
    cosines: Matrix64 | CosineRows
    labels: Labels
    tasks: Labels
    clip: Rows | None = None
    elsewhere: RowRanges | None = None  # who takes ranges of the rows if they are many

    def features(
        self, basis: Basis, options: MethodOptions, block: npt.NDArray[np.intp]
    ) -> TaskFeatures:
        """Return the features of some of the images, by their ascending places (b,)."""
        views = {name: subset(rows, block) for name, rows in self.views.items()}
        clip = None if self.clip is None else subset(self.clip, block)
        return kernel_features(basis, views, clip, options.clip_in_kernel, self.elsewhere)


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
    """Score the models after every task on the test images of the tasks so far.

    Images are taken in blocks, each by all models, so that memory does not grow with the probabilities of all images.
    """
    n, T = len(images.labels), len(sources)
    predictors = {"own": options} | {
        name: replace(options, predictor=name)  # type: ignore[arg-type]
        for name in REFERENCES
    }
    predicted = {name: np.empty((T, n), dtype=np.int32) for name in predictors}
    confidence = {name: np.empty(n) for name in BRANCHES}
    preferred = {name: np.empty(n, dtype=np.int32) for name in BRANCHES}
    at_once = IMAGES if images.elsewhere is None else SENT
    for block in blocks_of(n, at_once):
        features = images.features(basis, options, block)
        cosine = images.cosines[block]
        for task, (source, classifier) in enumerate(zip(sources, classifiers, strict=True)):
            for name, chosen in predictors.items():
                made = predict(
                    features,
                    cosine,
                    source=source,
                    classifier=classifier,
                    options=chosen,
                    clip_scale=clip_scale,
                )
                predicted[name][task, block] = made.label
                if name == "own" and task == T - 1:
                    for branch in BRANCHES:
                        p: Matrix64 = getattr(made, branch)
                        confidence[branch][block] = p.max(axis=1)
                        preferred[branch][block] = p.argmax(axis=1)
    matrices = {
        name: accuracy_matrix(list(labels), images.labels, images.tasks)
        for name, labels in predicted.items()
    }
    last = predicted["own"][-1]
    return Scores(
        accuracy=matrices.pop("own"),
        references=matrices,
        ece={
            name: calibration_error(confidence[name], preferred[name] == images.labels)
            for name in BRANCHES
        },
        per_class=per_class_accuracy(last, images.labels, len(sources[-1].means)),
        predicted=last,
        said={name: Said(preferred[name], confidence[name]) for name in BRANCHES},
    )


def pseudo_label_quality(labels: PseudoLabels, truth: Labels) -> tuple[float, float]:
    """Return the accuracy of a task's kept pseudo-labels, and the fraction kept."""
    kept = labels.kept
    accuracy = float(np.mean(labels.label[kept] == truth[kept])) if kept.any() else float("nan")
    return accuracy, float(np.mean(kept))
