"""Score one seed of a problem: accuracy of the method and its references, calibration, pseudo-labels.

Only evaluation reads target labels, and no module that adapts imports it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.method.adaptation import Referee
from pipeline.method.continual_metrics import accuracy_matrix, calibration_error, per_class_accuracy
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_lda import Classifier
from pipeline.method.kernel_rows import no_sharing
from pipeline.method.prediction import predict
from pipeline.method.rows import (
    BLOCK_IMAGES,
    Index,
    Labels,
    Matrix64,
    UnlabelledRows,
    Vector64,
    as_array,
    reduce_locally,
    row_blocks,
)
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import Predictor

REFERENCES: tuple[Predictor, ...] = ("source", "clip")  # predictors that do not adapt, scored for comparison
BRANCHES = ("klda", "clip", "fused")  # attributes of a `Prediction`


@dataclass(frozen=True, eq=False)
class BranchOutcome:
    """Predictions of a branch for n images."""

    label: Labels  # (n,) most probable class
    confidence: Vector64  # (n,) probability of that class


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one seed."""

    accuracy: Matrix64  # (T, T) accuracy matrix of the method
    references: dict[str, Matrix64]  # (T, T) accuracy matrices of the references
    ece: dict[str, float]  # calibration error after the last task, by branch
    per_class: Vector64  # (C,) accuracy of each class after the last task
    branches: dict[str, BranchOutcome]  # predictions after the last task, by branch; `fused` is the method's


def score(  # noqa: PLR0917  labels, tasks and models come in the same order everywhere
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
    portable = replace(referee, reduce_rows=reduce_locally, shared=no_sharing)  # can be sent to other processes
    models = (portable, sources, classifiers)
    predictions, preferred, confidence = referee.reduce_rows(_outcomes, models, rows, _joined)
    own_predictions, *references = (list(predicted) for predicted in predictions)
    branches = {name: BranchOutcome(preferred[b], confidence[b]) for b, name in enumerate(BRANCHES)}
    return Scores(
        accuracy=accuracy_matrix(own_predictions, labels, tasks),
        references={name: accuracy_matrix(r, labels, tasks) for name, r in zip(REFERENCES, references, strict=True)},
        ece={name: calibration_error(branch.confidence, branch.label == labels) for name, branch in branches.items()},
        per_class=per_class_accuracy(own_predictions[-1], labels, len(sources[-1].means)),
        branches=branches,
    )


def _joined(earlier: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the outcomes of neighbouring ranges of images, concatenated."""
    return tuple(np.concatenate(arrays, axis=-1) for arrays in zip(earlier, later, strict=True))


def _outcomes(
    models: tuple[Referee, Sequence[SourceModel], Sequence[Classifier]], rows: UnlabelledRows
) -> tuple[Any, ...]:
    """Return the classes (P, T, n) predicted by the method and its references, and the branches' final predictions.

    The latter are classes (B, n) and confidences (B, n) after the last task. Blocks of images bound the memory.
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
        for p, options in reversed(list(enumerate(predictors))):  # the method last
            for t, (source, classifier) in enumerate(zip(sources, classifiers, strict=True)):
                prediction = predict(features, cosines, source, classifier, options, referee.clip_scale)
                predicted[p, t, index] = prediction.label
        for b, branch in enumerate(BRANCHES):
            probabilities: Matrix64 = getattr(prediction, branch)
            preferred[b, index] = probabilities.argmax(axis=1)
            confidence[b, index] = probabilities.max(axis=1)
    return predicted, preferred, confidence


def pseudo_label_quality(labels: PseudoLabels, truth: Labels, task: Index) -> tuple[float, float]:
    """Return the accuracy of a task's kept pseudo-labels, NaN if none is kept, and the fraction kept.

    ``labels`` and the true classes ``truth`` (n,) are those of all images; ``task`` holds the task's row numbers.
    """
    kept = task[labels.kept[task]]
    accuracy = float(np.mean(labels.label[kept] == truth[kept])) if len(kept) else np.nan
    return accuracy, float(np.mean(labels.kept[task]))
