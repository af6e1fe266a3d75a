"""How well known classes are recognised and unknown images rejected, as in open-set and universal adaptation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.continual_metrics import ranking_quality
from pipeline.method.rows import Labels, Vector64

UNKNOWN = -1  # the label of an image of none of the classes that can be predicted


@dataclass(frozen=True, eq=False)
class Answers:
    """What a method that may answer `unknown` says of n images."""

    label: Labels  # (n,) the class of each image if it is not rejected
    rejected: npt.NDArray[np.bool_]  # (n,)
    u: Vector64  # (n,) how unlike the known classes an image is; the greatest are rejected

    def classes(self) -> Labels:
        """Return the class (n,) of each image, `UNKNOWN` where it is rejected."""
        return np.where(self.rejected, UNKNOWN, self.label)


@dataclass(frozen=True)
class LabelSpaceScores:
    """Fractions; NaN where there is no image to measure on."""

    shared: float  # accuracy on the shared classes, mean over the classes; a rejected image is wrong
    unknown: float  # share of the images of unknown classes that is rejected
    h_score: float  # harmonic mean of the two
    auroc: float  # probability that an unknown image has a greater u than a known one


def h_score(shared: float, unknown: float) -> float:
    """Return the harmonic mean of the accuracies on shared and unknown classes (Fu et al. 2020).

    Examples
    --------
    >>> round(h_score(0.9, 0.6), 2)
    0.72
    """
    total = shared + unknown  # NaN where there is nothing unknown
    return 0.0 if total == 0 else 2 * shared * unknown / total


def label_space_scores(labels: Labels, answers: Answers) -> LabelSpaceScores:
    """Score the answers for n images of true classes ``labels`` (n,), `UNKNOWN` for images of none of them."""
    rejected = answers.rejected
    right = (answers.label == labels) & ~rejected
    known, classes = labels != UNKNOWN, np.unique(labels[labels != UNKNOWN])
    shared = float(np.mean([right[labels == c].mean() for c in classes])) if known.any() else np.nan
    unknown = float(rejected[~known].mean()) if not known.all() else float("nan")
    return LabelSpaceScores(shared, unknown, h_score(shared, unknown), ranking_quality(answers.u, ~known))


def scores_after_tasks(labels: Labels, tasks: Labels, answers: Sequence[Answers]) -> list[LabelSpaceScores]:
    """Return the scores after each task on the images of the tasks so far, given the task (n,) of each image."""
    found = []
    for k, a in enumerate(answers):
        so_far = tasks <= k
        found.append(label_space_scores(labels[so_far], Answers(a.label[so_far], a.rejected[so_far], a.u[so_far])))
    return found
