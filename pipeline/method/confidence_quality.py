"""Whether a confidence, or the weight of a pseudo-label, tells right answers from wrong ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method.rows import Matrix, Matrix64, Vector64

Right = npt.NDArray[np.bool_]  # (n,) whether each of n answers is right
BINS = 15  # of equal widths (a, b]


def confidence_bins(confidence: Vector64, right: Right, *, bins: int = BINS) -> Matrix64:
    """Return per bin (bins, 3): how many samples, the sum of their confidence, how many are right; counts add."""
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    sums = (None, confidence, right.astype(np.float64))
    return np.stack([np.bincount(bin_of, weights, minlength=bins) for weights in sums], axis=1)


def calibration_error(confidence: Matrix, right: Right, *, bins: int = BINS) -> float:
    """Return the expected calibration error, the mean |accuracy − confidence| over bins, of n confidences (n,)."""
    if not len(right):
        raise InputError("calibration error: no samples")
    counts = confidence_bins(confidence.astype(np.float64), right, bins=bins)
    # share · |mean accuracy − mean confidence| = |Σ right − Σ confidence| / n
    return float(np.abs(counts[:, 2] - counts[:, 1]).sum() / len(right))


def weight_bins(weight: Vector64, right: Right, *, bins: int = 10) -> Matrix64:
    """Return per bin (at most ``bins``, 5): lowest, highest and mean weight, samples, share that is right.

    Bins of about equal counts: most weights lie close together. Equal weights share a bin, so there may be fewer.
    """
    if not len(weight):
        return np.zeros((0, 5))
    upper = np.unique(np.quantile(weight, np.arange(1, bins + 1) / bins, method="lower"))
    bin_of = np.searchsorted(upper, weight, side="left")  # up to and with its upper end
    rows = []
    for b in np.unique(bin_of):
        members = bin_of == b
        w = weight[members]
        rows.append((w.min(), w.max(), w.mean(), len(w), right[members].mean()))
    return np.array(rows)


def ranking_quality(weight: Vector64, right: Right) -> float:
    """Return P(a right label weighs more than a wrong one), ties half (the AUROC); NaN without both kinds."""
    n_right = int(right.sum())
    n_wrong = len(right) - n_right
    if not n_right or not n_wrong:
        return math.nan
    _, position, count = np.unique(weight, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    rank = (last - (count - 1) / 2)[position]  # from 1, ties their mean
    above = rank[right].sum() - n_right * (n_right + 1) / 2
    return float(above / (n_right * n_wrong))
