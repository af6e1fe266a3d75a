"""Compute the figures of a method on one problem, in percent, as stored in result files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.continual_metrics import LabelSpaceScores, average_incremental_accuracy, final_accuracy, forgetting

Float = npt.NDArray[np.float64]

# field of `LabelSpaceScores` -> its title
MEASURES = {"shared": "shared", "unknown": "unknown", "h_score": "H-score", "auroc": "AUROC"}


def percent(fraction: float | np.floating[Any]) -> float:
    """Convert a fraction to percent with two decimals.

    Examples
    --------
    >>> percent(2 / 3)
    66.67
    """
    return round(100 * float(fraction), 2)


def percent_where_known(fractions: Float) -> float | None:
    """Return the mean, in percent, of the fractions that are not NaN, or None if all are NaN."""
    known = fractions[~np.isnan(fractions)]
    return percent(np.mean(known)) if known.size else None


def accuracy_figures(matrices: Sequence[Float]) -> dict[str, Any]:
    """Return the figures of a method, in percent, from its accuracy matrices (T, T), one per seed.

    Entry [k, j] of a matrix is the accuracy on task j after task k.
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
    """Return how well known and unknown test images are told apart, in percent, as means over the seeds.

    ``seeds`` holds the scores after each task of each seed. The figures are those after the last task and, in
    ``per_task``, after each task; they are None if there is nothing to measure.
    """
    values = np.array([[[getattr(k, name) for name in MEASURES] for k in tasks] for tasks in seeds])
    per_task = {name: [percent_where_known(column) for column in values[:, :, i].T] for i, name in enumerate(MEASURES)}
    return {
        **{name: per_task[name][-1] for name in MEASURES},
        "h_score_sd": percent_where_known(values[:, -1:, [*MEASURES].index("h_score")].std(axis=0)),
        "per_task": per_task,
    }
