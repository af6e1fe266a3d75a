"""One seed of one problem, scored: accuracy of the method and of its references, calibration, pseudo-labels.

Evaluation alone reads target labels, and nothing that adapts imports it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.method.adaptation import Referee
from pipeline.method.continual_metrics import accuracy_matrix, calibration_error, per_class_accuracy
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import not_shared
from pipeline.method.prediction import predict
from pipeline.method.rows import (
    BLOCK_IMAGES,
    Index,
    Labels,
    Matrix64,
    UnlabelledRows,
    Vector64,
    as_array,
    reduce_here,
    row_blocks,
)
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import Predictor

REFERENCES: tuple[Predictor, ...] = ("source", "clip")  # do not adapt; scored beside the method
BRANCHES = ("klda", "clip", "fused")  # whose probabilities a prediction has


@dataclass(frozen=True, eq=False)
class BranchOutcome:
    """What a branch predicts for n images."""

    label: Labels  # (n,) the class it prefers
    confidence: Vector64  # (n,) the probability that it gives this class


@dataclass(frozen=True, eq=False)
class Scores:
    """What one seed gives."""

    accuracy: Matrix64  # (T, T) accuracy matrix of the method
    references: dict[str, Matrix64]  # (T, T) the same of predictors that do not adapt
    ece: dict[str, float]  # calibration error after the last task, by branch
    per_class: Vector64  # (C,) accuracy of each class after the last task
    branches: dict[str, BranchOutcome]  # what each branch predicts after the last task; `fused` is the prediction


def score(  # noqa: PLR0917  labels, tasks and models have one order everywhere
    referee: Referee,
    rows: UnlabelledRows,
    labels: Labels,
    tasks: Labels,
    sources: Sequence[SourceModel],
    classifiers: Sequence[Classifier],
) -> Scores:
    """Score the models after every task on the test images of the tasks so far.

    ``labels`` and ``tasks`` (n,) are the true class and the task, from 0, of each test image; ``sources`` and the
    target's ``classifiers`` are the models after each task.
    """
    alone = replace(referee, reduce_rows=reduce_here, shared=not_shared)  # as it travels to other processes
    models = (alone, sources, classifiers)
    predictions, preferred, confidence = referee.reduce_rows(_outcomes, models, rows, _joined)
    own, *references = (list(predicted) for predicted in predictions)
    branches = {name: BranchOutcome(preferred[b], confidence[b]) for b, name in enumerate(BRANCHES)}
    return Scores(
        accuracy=accuracy_matrix(own, labels, tasks),
        references={name: accuracy_matrix(r, labels, tasks) for name, r in zip(REFERENCES, references, strict=True)},
        ece={name: calibration_error(branch.confidence, branch.label == labels) for name, branch in branches.items()},
        per_class=per_class_accuracy(own[-1], labels, len(sources[-1].means)),
        branches=branches,
    )


def _joined(earlier: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the outcomes of both, image after image."""
    return tuple(np.concatenate(both, axis=-1) for both in zip(earlier, later, strict=True))


def _outcomes(
    models: tuple[Referee, Sequence[SourceModel], Sequence[Classifier]], rows: UnlabelledRows
) -> tuple[Any, ...]:
    """Return the classes (P, T, n) that the method and its references predict, and each branch's last ones, (B, n).

    The latter with the confidence in them, (B, n). Block by block, so that only the labels grow with the images.
    """
    referee, sources, classifiers = models
    n, T = len(rows), len(sources)
    predictors = [referee.options, *(replace(referee.options, predictor=p) for p in REFERENCES)]
    predicted = np.empty((len(predictors), T, n), dtype=np.int32)
    preferred = np.empty((len(BRANCHES), n), dtype=np.int32)
    confidence = np.empty((len(BRANCHES), n))
    for index in row_blocks(n, BLOCK_IMAGES):
        block = rows.take(index)
        features = referee.features(block)
        cosines = as_array(block.cosines)
        for p, options in reversed(list(enumerate(predictors))):  # the method itself last
            for t, (source, classifier) in enumerate(zip(sources, classifiers, strict=True)):
                prediction = predict(features, cosines, source, classifier, options, referee.clip_scale)
                predicted[p, t, index] = prediction.label
        for b, branch in enumerate(BRANCHES):
            probabilities: Matrix64 = getattr(prediction, branch)
            preferred[b, index] = probabilities.argmax(axis=1)
            confidence[b, index] = probabilities.max(axis=1)
    return predicted, preferred, confidence


def pseudo_label_quality(labels: PseudoLabels, truth: Labels, task: Index) -> tuple[float, float]:
    """Return the accuracy of a task's kept pseudo-labels (NaN: none is), and the fraction kept.

    ``labels`` and the true classes ``truth`` (n,) are those of all images, ``task`` the row numbers of the task's.
    """
    kept = task[labels.kept[task]]
    accuracy = float(np.mean(labels.label[kept] == truth[kept])) if len(kept) else np.nan
    return accuracy, float(np.mean(labels.kept[task]))
