"""Several vision models in the kernel, side by side, and how much each of them counts.

The row of an image is [g₁/‖g₁‖ ; … ; g_P/‖g_P‖]; with weights w the kernel (3) becomes

    K(x, y) = exp(−gamma Σ_p w_p² ‖Δg_p‖² / Σ_p w_p²).

Weights multiply the frequencies of the basis, not the rows: a source and its targets share both by sharing the basis.
They are chosen before any target image is seen, by source images that were held out.
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

GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # weights of a further model, where the first has 1
FOLDS = 5
FEATURES = 1000  # of the basis, enough to tell weights apart


def side_by_side(parts: Sequence[Matrix]) -> Matrix:
    """Return the unit rows of several models, (n, d₁ + … + d_P), of their rows (n, d_p)."""
    return np.hstack([unit_rows(part) for part in parts])


def split_models(rows: Matrix, widths: Sequence[int]) -> list[Matrix]:
    """Return the columns (n, d_p) of each model: what `side_by_side` joined."""
    return np.split(rows, np.cumsum(widths)[:-1], axis=1)


def column_factors(widths: Sequence[int], weights: Sequence[float]) -> Vector64:
    """Return the factor (d,) of each column that gives the models of a unit row their weights.

    Examples
    --------
    >>> column_factors((1, 1), (1.0, 0.0)).round(3)
    array([1.414, 0.   ])
    """
    w = np.asarray(weights, dtype=np.float64)
    return np.repeat(w * np.sqrt(len(w) / (w**2).sum()), widths)


def weighted(basis: Basis, widths: Sequence[int], weights: Sequence[float]) -> Basis:
    """Return the basis of the kernel in which models of these widths have these weights."""
    factors = column_factors(widths, weights)
    return replace(basis, omega=(basis.omega * factors[:, None]).astype(np.float32))


def chosen_weights(
    basis: Basis, rows: Matrix, widths: Sequence[int], labels: Labels, clip: Matrix
) -> tuple[float, ...]:
    """Return the weights under which the source model finds held-out source images likeliest.

    The first model has weight 1. Each further one gets the best of `GRID` with those before it fixed and those after it
    left out; among equals the one nearest to 1. ``rows`` (n, d) are the models' of these ``widths`` side by side,
    ``labels`` (n,) and ``clip`` (n, d') the classes and CLIP's rows of the same images.
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
    """Return the mean log probability of source images under source models that did not see them, by `FOLDS` folds."""
    options, classes = MethodOptions(), np.arange(int(labels.max()) + 1)
    features, fold = joined_rows(basis, {"original": rows}, clip, options.clip_in_kernel), folds(labels)
    shared: Any = lambda *_: features  # noqa: E731  the same for every fold
    total = 0.0
    for k in np.unique(fold[fold >= 0]):
        (model,) = fit_source(basis, {"original": rows}, labels, [classes], options, shared=shared, without=fold == k)
        out = np.flatnonzero(fold == k)
        held_out = KernelRows(features.basis, {"original": take(features.views["original"], out)})
        p = klda_probabilities(held_out, model.classifier, classes, options, vote=False)
        total += len(out) * log_likelihood(p, labels[out])
    return total / max(1, int((fold >= 0).sum()))


def folds(labels: Labels) -> Index:
    """Return the fold (n,) of each row: the rows of every class in turn, and -1 for the only row of a class.

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
