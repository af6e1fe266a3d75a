"""Combine several vision models in the kernel and choose their weights.

The row of an image is [g₁/‖g₁‖ ; … ; g_P/‖g_P‖]. With weights w, the kernel (3) becomes

    K(x, y) = exp(−gamma Σ_p w_p² ‖Δg_p‖² / Σ_p w_p²).

The weights multiply the frequencies of the basis, not the rows, so a source and its targets share them with the basis.
They are chosen on held-out source images, before any target image is read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.method.continual_metrics import log_likelihood
from pipeline.method.kernel_rows import KernelRows, joined_rows
from pipeline.method.prediction import klda_probabilities
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import Index, Labels, Matrix, Vector64, take, unit_rows
from pipeline.method.source_model import fit_source
from pipeline.method.variants import MethodOptions

GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # candidate weights of further models; the first model has weight 1
FOLDS = 5
FEATURES = 1000  # maximum number of Fourier features used to compare weights


def join_models(parts: Sequence[Matrix]) -> Matrix:
    """Return the unit rows (n, d₁ + … + d_P) of several models, given the rows (n, d_p) of each."""
    return np.hstack([unit_rows(part) for part in parts])


def split_models(rows: Matrix, widths: Sequence[int]) -> list[Matrix]:
    """Return the columns (n, d_p) of each model; the inverse of `join_models`."""
    return np.split(rows, np.cumsum(widths)[:-1], axis=1)


def column_factors(widths: Sequence[int], weights: Sequence[float]) -> Vector64:
    """Return the factors (d,) by which columns are multiplied to give the models their weights.

    Examples
    --------
    >>> column_factors((1, 1), (1.0, 0.0)).round(3)
    array([1.414, 0.   ])
    """
    w = np.asarray(weights, dtype=np.float64)
    return np.repeat(w * np.sqrt(len(w) / (w**2).sum()), widths)


def weighted(basis: Basis, widths: Sequence[int], weights: Sequence[float]) -> Basis:
    """Return the basis of the kernel in which the models of the given ``widths`` have the given ``weights``."""
    factors = column_factors(widths, weights)
    return replace(basis, omega=(basis.omega * factors[:, None]).astype(np.float32))


def chosen_weights(
    basis: Basis, rows: Matrix, widths: Sequence[int], labels: Labels, clip: Matrix
) -> tuple[float, ...]:
    """Return the weights that maximise the likelihood of held-out source images under the source model.

    The first model has weight 1. Each further model gets the best weight of `GRID`, with earlier models fixed and later
    ones left out; ties go to the weight nearest to 1. ``rows`` (n, d) are the concatenated rows of models of the given
    ``widths``; ``labels`` (n,) and ``clip`` (n, d') are the classes and CLIP's rows of the same images.
    """
    basis = basis.nested(min(basis.D, FEATURES))
    weights = [1.0]
    for _ in widths[1:]:
        later = [0.0] * (len(widths) - len(weights) - 1)
        likelihood = {
            w: _held_out_likelihood(weighted(basis, widths, [*weights, w, *later]), rows, labels, clip)
            for w in sorted(GRID, key=lambda w: abs(w - 1))
        }
        weights.append(max(likelihood, key=lambda w: likelihood[w]))
    return tuple(weights)


def _held_out_likelihood(basis: Basis, rows: Matrix, labels: Labels, clip: Matrix) -> float:
    """Return the mean log probability of source images in cross-validation with `FOLDS` folds."""
    options, classes = MethodOptions(), np.arange(int(labels.max()) + 1)
    features, fold = joined_rows(basis, {"original": rows}, clip, options.clip_in_kernel), folds(labels)
    shared: Any = lambda *_: features  # noqa: E731  the same features for every fold
    total = 0.0
    for k in np.unique(fold[fold >= 0]):
        (model,) = fit_source(basis, {"original": rows}, labels, [classes], options, shared=shared, held_out=fold == k)
        held_out = np.flatnonzero(fold == k)
        rows_out = KernelRows(features.basis, {"original": take(features.views["original"], held_out)})
        p = klda_probabilities(rows_out, model.classifier, classes, options, vote=False)
        total += len(held_out) * log_likelihood(p, labels[held_out])
    return total / max(1, int((fold >= 0).sum()))


def folds(labels: Labels) -> Index:
    """Return the fold (n,) of each row, dealing out the rows of each class in turn; -1 for a class's only row.

    Examples
    --------
    >>> folds(np.array([0, 0, 1, 0, 2, 0, 0, 0, 1]))
    array([ 0,  1,  0,  2, -1,  3,  4,  0,  1])
    """
    fold = np.empty(len(labels), dtype=np.intp)
    for c in np.unique(labels):
        rows = np.flatnonzero(labels == c)
        fold[rows] = np.arange(len(rows)) % FOLDS if len(rows) > 1 else -1
    return fold
