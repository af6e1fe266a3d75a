"""Compute the metrics of a run: accuracy matrix, averages, forgetting, error of A_T and calibration.

a[k, j] is the accuracy on task j's test images after task k, over all classes seen so far, and NaN above the diagonal.
A_k = mean_{j ≤ k} a[k, j], and the headline is A_T.

If there are images of unknown classes, the metrics of open-set and universal adaptation measure how well known classes
are recognised and unknown images rejected.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.rows import Labels, Matrix, Matrix64, Vector64

Right = npt.NDArray[np.bool_]  # (n,) whether each answer is right
BINS = 15  # number of confidence bins (a, b] of equal width
WEIGHT_BINS = 10  # maximum number of weight bins of about equal counts
UNKNOWN = -1  # label of images of unknown classes


def accuracy_matrix(predictions: Sequence[Labels], labels: Labels, tasks: Labels) -> Matrix64:
    """Return the accuracy matrix a (T, T), given the predicted classes (n,) after each of T tasks.

    ``labels`` and ``tasks`` (n,) are the true class and the task, from 0, of each test image. Predictions for images of
    later tasks are ignored. Raise InputError if a task has no test images.

    Examples
    --------
    >>> predictions = [np.array([0, 0]), np.array([1, 1])]
    >>> accuracy_matrix(predictions, np.array([0, 1]), np.array([0, 1]))
    array([[ 1., nan],
           [ 0.,  1.]])
    """
    T = len(predictions)
    accuracy = np.full((T, T), np.nan)
    for j in range(T):
        members = tasks == j
        if not members.any():
            raise InputError(
                f"task {j + 1} of {T} has no test image to score: give more images or raise data.test_fraction"
            )
        for k in range(j, T):
            accuracy[k, j] = np.mean(predictions[k][members] == labels[members])
    return accuracy


def accuracy_after_each_task(accuracy: Matrix64) -> Vector64:
    """Return A_k = mean_{j ≤ k} a[k, j], (T,)."""
    return np.array([accuracy[k, : k + 1].mean() for k in range(len(accuracy))])


def final_accuracy(accuracy: Matrix64) -> float:
    """Return A_T, the headline metric."""
    return float(accuracy_after_each_task(accuracy)[-1])


def average_incremental_accuracy(accuracy: Matrix64) -> float:
    """Return the mean of A_1 … A_T."""
    return float(accuracy_after_each_task(accuracy).mean())


def forgetting_per_task(accuracy: Matrix64) -> Vector64:
    """Return max_k a[k, j] − a[T, j] for every task except the last, (T − 1,)."""
    return np.array([np.nanmax(accuracy[:, j]) - accuracy[-1, j] for j in range(len(accuracy) - 1)])


def forgetting(accuracy: Matrix64) -> float:
    """Return mean_{j < T} (max_k a[k, j] − a[T, j]); 0 for a single task."""
    return float(forgetting_per_task(accuracy).mean()) if len(accuracy) > 1 else 0.0


def per_class_accuracy(predictions: Labels, labels: Labels, C: int) -> Vector64:
    """Return the accuracy of each class, (C,); NaN for a class without test images."""
    total = np.bincount(labels, minlength=C)
    right = np.bincount(labels[predictions == labels], minlength=C)
    return np.asarray(np.divide(right, total, out=np.full(C, np.nan), where=total > 0))


def image_covariance(right: Sequence[np.ndarray], tasks: Sequence[Labels], images: Sequence[Labels]) -> Matrix64:
    """Return the covariance (M, M) of M methods' final accuracies A_T, as fractions, due to sampling of test images.

    A_T is a weighted mean of right and wrong answers, so its variance is the sum over images of the squared deviations
    of their contributions. An image in the test sets of several seeds counts once, with its total contribution, because
    its answers are not independent. The variance of a difference of methods a and b is
    ``C[a, a] + C[b, b] - 2 C[a, b]``. If both always give the same answers, it is 0, however uncertain each is.

    Parameters
    ----------
    right : sequence of ndarray of shape (M, n)
        Whether each method is right about each of a seed's n test images after the last task.
    tasks, images : sequence of ndarray of shape (n,)
        Task of each test image, and its row in the domain, which identifies it across seeds.

    Examples
    --------
    >>> answers, task = np.array([[1, 0, 1, 0], [1, 0, 1, 1]]), np.zeros(4, int)
    >>> image_covariance([answers], [task], [np.arange(4)]).round(4)
    array([[0.0625, 0.0312],
           [0.0312, 0.0469]])
    """
    contribution = np.zeros((1 + max(int(rows.max()) for rows in images), len(right[0])))
    for answers, task, rows in zip(right, tasks, images, strict=True):
        T = len(np.unique(task))
        for t in np.unique(task):
            of_task = answers[:, task == t].astype(np.float64)
            deviation = of_task - of_task.mean(axis=1, keepdims=True)
            contribution[rows[task == t]] += deviation.T / (len(right) * T * of_task.shape[1])
    return np.asarray(contribution.T @ contribution)


def confidence_bins(confidence: Vector64, right: Right) -> Matrix64:
    """Return (`BINS`, 3) sums per bin: number of samples, their confidences and number right. The sums are additive."""
    edges = np.linspace(0, 1, BINS + 1)
    bin_of = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    sums = (None, confidence, right.astype(np.float64))
    return np.stack([np.bincount(bin_of, weights, minlength=BINS) for weights in sums], axis=1)


def calibration_error(confidence: Matrix, right: Right) -> float:
    """Return the expected calibration error of n > 0 confidences (n,), the mean |accuracy − confidence| over bins."""
    counts = confidence_bins(confidence.astype(np.float64), right)
    # share · |mean accuracy − mean confidence| = |Σ right − Σ confidence| / n
    return float(np.abs(counts[:, 2] - counts[:, 1]).sum() / len(right))


def weight_bins(weight: Vector64, right: Right) -> Matrix64:
    """Return (B, 5) values per bin: lowest, highest and mean weight, number of samples, fraction right.

    Most weights lie close together, so bins have about equal counts. Equal weights share a bin: B ≤ `WEIGHT_BINS`.
    """
    if not len(weight):
        return np.zeros((0, 5))
    upper = np.unique(np.quantile(weight, np.arange(1, WEIGHT_BINS + 1) / WEIGHT_BINS, method="lower"))
    bin_of = np.searchsorted(upper, weight, side="left")  # a bin includes its upper end
    rows = []
    for b in np.unique(bin_of):
        members = bin_of == b
        w = weight[members]
        rows.append((w.min(), w.max(), w.mean(), len(w), right[members].mean()))
    return np.array(rows)


def ranking_quality(weight: Vector64, right: Right) -> float:
    """Return the AUROC, P(a right label weighs more than a wrong one) with ties half; NaN if one kind is missing."""
    n_right = int(right.sum())
    n_wrong = len(right) - n_right
    if not n_right or not n_wrong:
        return math.nan
    _, position, count = np.unique(weight, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    rank = (last - (count - 1) / 2)[position]  # from 1; ties have their mean rank
    pairs = rank[right].sum() - n_right * (n_right + 1) / 2  # in which the right label weighs more
    return float(pairs / (n_right * n_wrong))


def log_likelihood(p: Matrix64, labels: Labels) -> float:
    """Return the mean log probability of the true classes ``labels`` (n,)."""
    return float(np.log(np.maximum(p[np.arange(len(p)), labels], 1e-12)).mean())


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers for n images of a method that may answer `unknown`."""

    label: Labels  # (n,) predicted class of each image if it is not rejected
    rejected: npt.NDArray[np.bool_]  # (n,)
    u: Vector64  # (n,) score of being unknown; images with high scores are rejected

    def classes(self) -> Labels:
        """Return the class (n,) of each image, `UNKNOWN` if it is rejected."""
        return np.where(self.rejected, UNKNOWN, self.label)


@dataclass(frozen=True)
class LabelSpaceScores:
    """Metrics with unknown classes, as fractions; NaN if there are no images for one."""

    shared: float  # mean accuracy of the shared classes; rejected images count as wrong
    unknown: float  # fraction of the images of unknown classes that are rejected
    h_score: float  # harmonic mean of the two (Fu et al. 2020)
    auroc: float  # probability that an unknown image has a greater u than a known one


def label_space_scores(labels: Labels, answers: Answers) -> LabelSpaceScores:
    """Score answers, given the true classes ``labels`` (n,), `UNKNOWN` for images of unknown classes."""
    rejected = answers.rejected
    right = (answers.label == labels) & ~rejected
    known, classes = labels != UNKNOWN, np.unique(labels[labels != UNKNOWN])
    shared = float(np.mean([right[labels == c].mean() for c in classes])) if known.any() else np.nan
    unknown = float(rejected[~known].mean()) if not known.all() else np.nan
    h_score = 0.0 if shared + unknown == 0 else 2 * shared * unknown / (shared + unknown)
    return LabelSpaceScores(shared, unknown, h_score, ranking_quality(answers.u, ~known))


def scores_after_tasks(labels: Labels, tasks: Labels, answers: Sequence[Answers]) -> list[LabelSpaceScores]:
    """Return the scores after each task on the images of the tasks so far, given the task (n,) of each image."""
    scores = []
    for k, a in enumerate(answers):
        seen = tasks <= k
        scores.append(label_space_scores(labels[seen], Answers(a.label[seen], a.rejected[seen], a.u[seen])))
    return scores
