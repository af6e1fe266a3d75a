"""The figures of one problem, in percent: what `evaluate` and `compare` write as JSON."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.adaptation import PseudoLabels
from pipeline.method.continual_metrics import average_incremental_accuracy, final_accuracy, forgetting, ranking_quality
from pipeline.method.evaluation import Scores
from pipeline.method.label_space_measures import LabelSpaceScores
from pipeline.report.figures import percent

Float = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]

# of `LabelSpaceScores`, and their titles
MEASURES = {"shared": "shared", "unknown": "unknown", "h_score": "H-score", "auroc": "AUROC"}


@dataclass(frozen=True, eq=False)
class EvaluatedProblem:
    """What `evaluate` measured on one problem with S seeds, T tasks, C classes and n images of the target."""

    class_names: Sequence[str]  # the C classes, by label
    labels: Labels  # (n,), the true class of every image
    seeds: Sequence[int]
    test_rows: Sequence[npt.NDArray[np.intp]]  # for each seed, which of the n images are test images
    scores: Sequence[Scores]  # for each seed, on its test images
    quality: Float  # (S, T, 2): accuracy of the pseudo-labels (NaN: none kept), and the share kept
    weight: Float  # (m,), of every pseudo-label that was kept, of all seeds
    right: Bools  # (m,), whether it is right

    def test_labels(self) -> list[Labels]:
        """Return for each seed the true classes of its test images."""
        return [self.labels[rows] for rows in self.test_rows]


def problem_figures(problem: EvaluatedProblem) -> dict[str, Any]:
    """Return the figures of a problem, ready to be written as JSON.

    ``weight_auroc`` is there only where pseudo-labels are both right and wrong.
    """
    figures = accuracy_figures([scores.accuracy for scores in problem.scores])
    per_seed = figures.pop("A_T_per_seed")
    first = problem.scores[0]
    for name in first.references:
        reference = [final_accuracy(scores.references[name]) for scores in problem.scores]
        figures[f"{name}_only_A_T"] = percent(np.mean(reference))
    figures["pseudo_label_accuracy"] = percent_where_known(problem.quality[..., 0])
    figures["pseudo_labels_kept"] = percent(np.mean(problem.quality[..., 1]))
    figures["ece"] = {
        branch: percent(np.mean([scores.ece[branch] for scores in problem.scores])) for branch in first.ece
    }
    figures["A_T_per_seed"] = per_seed
    figures["test_images"] = max(map(len, problem.test_rows))
    figures["classes"] = len(problem.class_names)
    if not math.isnan(auroc := ranking_quality(problem.weight, problem.right)):
        figures["weight_auroc"] = percent(auroc)
    return figures


def accuracy_figures(matrices: Sequence[Float]) -> dict[str, Any]:
    """Return the figures of a method's accuracy matrices (T, T), one per seed, in percent.

    At [k, j] a matrix has the accuracy on task j after task k.
    """
    final = [final_accuracy(matrix) for matrix in matrices]
    incremental = [average_incremental_accuracy(matrix) for matrix in matrices]
    return {
        "A_T": percent(np.mean(final)),
        "A_T_sd": percent(np.std(final)),
        "average_incremental": percent(np.mean(incremental)),
        "forgetting": percent(np.mean([forgetting(matrix) for matrix in matrices])),
        "A_T_per_seed": [percent(value) for value in final],
    }


def label_space_figures(seeds: Sequence[Sequence[LabelSpaceScores]]) -> dict[str, Any]:
    """Return, in percent and as means over the seeds, how well known and unknown test images are told apart.

    ``seeds`` has, for each seed, the scores after each task. The figures are those after the last one and, in
    ``per_task``, after each; None stands where there is nothing to measure.
    """
    values = np.array([[[getattr(k, name) for name in MEASURES] for k in tasks] for tasks in seeds])
    per_task = {name: [percent_where_known(column) for column in values[:, :, i].T] for i, name in enumerate(MEASURES)}
    return {
        **{name: per_task[name][-1] for name in MEASURES},
        "h_score_sd": percent_where_known(values[:, -1:, [*MEASURES].index("h_score")].std(axis=0)),
        "per_task": per_task,
    }


def percent_where_known(fractions: Float) -> float | None:
    """Return the mean, in percent, of the fractions that are not NaN; None where all are."""
    known = fractions[~np.isnan(fractions)]
    return percent(np.mean(known)) if known.size else None


def kept_weights(labels: Iterable[PseudoLabels], is_test: Iterable[Bools], truth: Labels) -> tuple[Float, Bools]:
    """Return the weight of every pseudo-label that was kept, of all seeds, and whether it is right; (m,) each.

    ``labels`` and ``is_test`` have for each seed the pseudo-labels of the n images and which are test images
    (these have none); ``truth`` (n,) the true classes.
    """
    weights, right = [], []
    for one, test in zip(labels, is_test, strict=True):
        used = one.kept & ~test
        weights.append(one.weight[used])
        right.append(one.label[used] == truth[used])
    return np.concatenate(weights), np.concatenate(right)
