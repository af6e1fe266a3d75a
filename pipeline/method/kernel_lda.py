"""Kernel LDA: linear discriminants of random Fourier features, eqs. (11)–(13).

w_m = A⁻¹μ_m, b_m = −½ μ_mᵀA⁻¹μ_m, F(x) = z(x)ᵀW + b. This module uses **deviation coordinates**, δ = z − p and
m = μ − p for the basis's pivot p, which changes no prediction:

    zᵀA⁻¹μ − ½ μᵀA⁻¹μ = δᵀA⁻¹m − ½ mᵀA⁻¹m + (δᵀA⁻¹p + ½ pᵀA⁻¹p)

where the bracket is the same for every class, so softmax and argmax are those of the paper. The released code's logits
−(μ−z)ᵀA⁻¹(μ−z) are 2F(x) − δᵀA⁻¹δ, and the last term is the same for every class: they are the same discriminant at
half the temperature. Cholesky also replaces its pseudo-inverse of scatter + 1e-6 I, which is positive definite.

Deviations from the paper: A⁻¹ does not exist with fewer rows than features, so A is regularised by a ridge or shrunk.
Log class priors may be added to b.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError, listed
from pipeline.method.rows import Labels, Matrix, Matrix64, Vector64
from pipeline.method.within_scatter import Scatter, Shrinkage, dense

SAME_FEATURES = 1e-6  # ratio of within-class variance to squared size below which features count as constant
NO_SPREAD = (
    "no feature varies within a class (one row per class, or copies of one image): there is no covariance to estimate; "
    "give more images or views, or set method.options.ridge_kind: absolute"
)


@dataclass(frozen=True, eq=False)
class Classifier:
    """Linear classifier in deviation coordinates, eqs. (11), (12)."""

    W: Matrix64  # (D, C)
    b: Vector64  # (C,)

    def for_classes(self, classes: Labels) -> "Classifier":
        """Return the classifier restricted to some classes (c,)."""
        return Classifier(self.W[:, classes], self.b[classes])

    def scores(self, deviations: Matrix) -> Matrix64:
        """Return the scores F, (n, C), eq. (13), of rows z − pivot (n, D), up to a constant per row."""
        return np.asarray(deviations.astype(np.float64) @ self.W + self.b)


@dataclass(frozen=True)
class Regularisation:
    """How to turn a scatter into an invertible matrix."""

    ridge: float  # λ, added to the diagonal of the covariance A (of the scatter, if not divided)
    relative: bool = True  # λ is relative to the mean diagonal: λ·tr A/D is added
    divide: bool = True  # divide the scatter by Σω (not done by the released code)
    shrinkage: Shrinkage = None  # applied before the ridge

    def absolute_ridge(self, scatter: Scatter, means: Matrix64, D: int) -> float:
        """Return the number to add to the scatter's diagonal, given the class means (C, width) of D features.

        The width is less than D if only some directions are kept (`kernel_directions`).
        """
        if self.relative:
            check_spread(scatter.trace(), scatter.total, means)
            return self.ridge * scatter.trace() / D
        return self.ridge * (scatter.total if self.divide else 1.0)


def solve(
    means: Matrix64, scatter: Scatter, regularisation: Regularisation, *, ridge: float, priors: Matrix | None = None
) -> Classifier:
    """Return the classifier of class means (C, D) minus the pivot and their within-class scatter, eqs. (11), (12).

    The scatter is overwritten. ``ridge`` is added to its diagonal, see `Regularisation.absolute_ridge`. ``priors`` (C,)
    are positive class weights, equal if omitted.
    """
    if regularisation.divide and scatter.total <= 0:
        raise InputError("covariance: no row has any weight")
    if regularisation.shrinkage is not None:
        dense(scatter).shrink(regularisation.shrinkage)
    W = scatter.solve(means.T, ridge)  # eq. (11)
    if regularisation.divide:
        W *= scatter.total  # (S/Σω + κ/Σω·I)⁻¹ = Σω (S + κI)⁻¹
    return with_biases(means, W, priors)


def with_biases(means: Matrix64, W: Matrix64, priors: Matrix | None) -> Classifier:
    """Return the classifier of class means (C, D) minus the pivot and W (D, C) = A⁻¹μ, eq. (11)."""
    b = -0.5 * np.einsum("cd,dc->c", means, W)  # eq. (12)
    if not np.isfinite(b).all():
        raise InputError("the statistics hold a number that is not finite: an embedding has NaN or inf")
    if priors is not None:
        b = b + np.log(priors / priors.sum())
    return Classifier(W, np.asarray(b))


def filled_means(means: Matrix64, fallback: Matrix64 | None = None) -> Matrix64:
    """Return class means (C, D) with NaN rows replaced by those of ``fallback``; raise InputError if any is left.

    Further classes of the fallback are appended.
    """
    if fallback is not None and len(means) < len(fallback):
        means = np.concatenate([means, fallback[len(means) :]])
    empty = np.asarray(np.isnan(means).any(axis=1))
    if not empty.any():
        return means
    missing = empty if fallback is None else empty & np.isnan(fallback).any(axis=1)
    if fallback is None or missing.any():
        names = listed(np.flatnonzero(missing))
        raise InputError(f"no sample of class {names}; give a fallback mean for it")
    return np.where(empty[:, None], fallback, means)


def check_spread(trace: float, total: float, means: Matrix64) -> None:
    """Raise InputError if a scatter is only rounding error, given its trace, its weight and the class means (C, D).

    A ridge relative to it would be rounding error too. Features that vary by less than a thousandth of their size are
    copies of one image; the rounding of float32 products is a tenth of that.
    """
    means = means[~np.isnan(means).any(axis=1)]
    size = float(np.einsum("cd,cd->", means, means)) / max(1, len(means))
    if trace <= SAME_FEATURES * total * size:
        raise InputError(NO_SPREAD)
