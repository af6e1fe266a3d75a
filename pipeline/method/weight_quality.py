"""How well the weight of a pseudo-label tells right labels from wrong ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix64, Vector64

Right = npt.NDArray[np.bool_]


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
