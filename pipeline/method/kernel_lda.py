"""Kernel LDA: linear discriminants of random Fourier features, eqs. (11)–(13).

w_m = A⁻¹μ_m, b_m = −½ μ_mᵀA⁻¹μ_m, F(x) = z(x)ᵀW + b. Everything here is in **deviation
coordinates**, δ = z − p and m = μ − p for the basis's pivot p. That changes no prediction:

    zᵀA⁻¹μ − ½ μᵀA⁻¹μ = δᵀA⁻¹m − ½ mᵀA⁻¹m + (δᵀA⁻¹p + ½ pᵀA⁻¹p)

and the bracket is the same for every class, so that softmax and argmax are those of the paper. The
released code's logits −(μ−z)ᵀA⁻¹(μ−z) are 2F(x) up to −δᵀA⁻¹δ, again the same for every class: they
are the same discriminant at half the temperature, and cost one product for all samples as well.

Deviations: A⁻¹ does not exist when there are fewer rows than features, so A is regularised by a
relative ridge or shrunk; log class priors may be added to b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from pipeline.errors import InputError, ParamsError, did_you_mean, listed
from pipeline.method.blas_products import product
from pipeline.method.class_statistics import ClassStatistics, Matrix64, Vector64, symmetric
from pipeline.method.zero_shot import Matrix

Shrinkage = float | Literal["oas", "ledoit_wolf"] | None
SHRINKAGES = ("oas", "ledoit_wolf")
Route = Literal["cholesky", "pinverse"]
SINGULAR = "the covariance is singular: give a larger ridge or shrinkage; a ridge below 1e-3 needs arithmetic: float64"


@dataclass(frozen=True, eq=False)
class Classifier:
    """Linear scores in deviation coordinates: W (D, C) and b (C,), eqs. (11), (12)."""

    W: Matrix64
    b: Vector64

    def scores(self, deviations: Matrix) -> Matrix64:
        """Return F, (n, C), eq. (13), of rows z − pivot (n, D), up to a constant per row."""
        return np.asarray(product(deviations.astype(np.float64), self.W) + self.b)


def averaged(classifiers: Sequence[Classifier]) -> Classifier:
    """Return the classifier whose scores are the mean of those of an ensemble's, over the columns of all."""
    members = len(classifiers)
    if members == 1:
        return classifiers[0]
    W = np.vstack([classifier.W for classifier in classifiers]) / members
    return Classifier(W, np.mean([classifier.b for classifier in classifiers], axis=0))


def fit(
    statistics: ClassStatistics,
    *,
    ridge: float = 0.0,
    shrinkage: Shrinkage = None,
    priors: Matrix | None = None,
    fallback: Matrix | None = None,
) -> Classifier:
    """Return the classifier of ``statistics``, eqs. (11)–(13).

    ridge: λ of A + λ (tr A / D) I. shrinkage: see `shrink`. priors: (C,) class probabilities.
    fallback: (C, D) means less the pivot for classes without a sample (the documented one is the
    source's); without it such a class is an error.
    """
    means = filled_means(statistics, fallback)
    covariance = shrink(statistics.covariance(), shrinkage, statistics.degrees_of_freedom())
    return discriminants(means, covariance, ridge=relative_ridge(covariance, ridge), priors=priors)


def filled_means(statistics: ClassStatistics, fallback: Matrix | None) -> Matrix64:
    """Return the class means less the pivot (C, D), empty classes from ``fallback``."""
    means = statistics.means()
    empty = statistics.empty_classes
    if empty and fallback is None:
        raise InputError(f"no sample of class {listed(empty)}; give a fallback mean for it")
    if empty and fallback is not None:
        means[empty] = fallback[empty]
    if np.isnan(means).any():
        unknown = np.flatnonzero(np.isnan(means).any(axis=1))
        raise InputError(f"no sample of class {listed(unknown)}, and no fallback mean either")
    return means


def relative_ridge(covariance: Matrix64, ridge: float) -> float:
    """Return λ tr A / D for a relative ridge λ."""
    if ridge < 0:
        raise ParamsError(f"ridge: a number from 0 on, not {ridge!r}")
    return float(ridge * np.trace(covariance) / len(covariance))


def discriminants(
    means: Matrix64,
    covariance: Matrix64,
    *,
    ridge: float,
    priors: Matrix | None = None,
    route: Route = "cholesky",
    overwrite: bool = False,
) -> Classifier:
    """Solve eqs. (11), (12) for all classes with one factorisation.

    means: (C, D) less the pivot. covariance: (D, D), lower triangle; a scatter gives the released
    code's scale. ridge: absolute, added to the diagonal. route: ``pinverse`` is the released
    code's, slower, for any symmetric matrix. overwrite: factor in the covariance's memory.
    """
    regular = covariance if overwrite else covariance.copy(order="F")
    regular[np.diag_indices_from(regular)] += ridge
    if route == "pinverse":
        W = product(scipy.linalg.pinvh(symmetric(regular)), means.T)
    else:
        try:
            factor = scipy.linalg.cho_factor(
                regular, lower=True, overwrite_a=True, check_finite=False
            )
        except scipy.linalg.LinAlgError:
            raise InputError(SINGULAR) from None
        W = scipy.linalg.cho_solve(factor, means.T, check_finite=False)  # eq. (11)
    return with_biases(means, np.asarray(W), priors)


def with_biases(means: Matrix64, W: Matrix64, priors: Matrix | None) -> Classifier:
    """Return the classifier of means (C, D) less the pivot and W (D, C) = A⁻¹μ, eq. (11)."""
    b = -0.5 * np.einsum("cd,dc->c", means, W)  # eq. (12)
    if not np.isfinite(b).all():
        raise InputError(
            "the statistics hold a number that is not finite: an embedding has NaN or inf"
        )
    if priors is not None:
        b = b + log_priors(priors, len(means))
    return Classifier(W, np.asarray(b))


def log_priors(priors: Matrix, C: int) -> Vector64:
    """Return log π_m, (C,), of class weights above 0."""
    if priors.shape != (C,) or not (priors > 0).all():
        raise ParamsError(f"priors: {C} numbers above 0 are needed, not {priors!r}")
    return np.asarray(np.log(priors / priors.sum()), dtype=np.float64)


def shrink(covariance: Matrix64, shrinkage: Shrinkage, n: float) -> Matrix64:
    """Return (1 − ρ) A + ρ (tr A / D) I of a lower triangle (D, D) seen from ``n`` rows.

    shrinkage: ρ itself; ``oas``: the oracle approximating estimate of it; ``ledoit_wolf``: Ledoit
    and Wolf's in its Rao-Blackwellised form (both Chen et al., 2010), which needs no fourth
    moments: those, about class means, do not add. Both assume normal rows; weights make ``n`` Kish's.
    """
    if shrinkage is None:
        return covariance
    rho = shrinkage_intensity(covariance, shrinkage, n)
    target = rho * np.trace(covariance) / len(covariance)
    shrunk = (1 - rho) * covariance
    shrunk[np.diag_indices_from(shrunk)] += target
    return np.asfortranarray(shrunk)


def shrinkage_intensity(covariance: Matrix64, shrinkage: float | str, n: float) -> float:
    """Return ρ in [0, 1], see `shrink`."""
    if not isinstance(shrinkage, str):
        if not 0 <= shrinkage <= 1:
            raise ParamsError(f"shrinkage: a number from 0 to 1, not {shrinkage!r}")
        return float(shrinkage)
    p = len(covariance)
    trace = float(np.trace(covariance))
    of_square = _trace_of_square(covariance)
    spread = of_square - trace**2 / p
    if shrinkage == "oas":
        above, below = (1 - 2 / p) * of_square + trace**2, (n + 1 - 2 / p) * spread
    elif shrinkage == "ledoit_wolf":
        above, below = (n - 2) / max(n, 1) * of_square + trace**2, (n + 2) * spread
    else:
        hint = did_you_mean(shrinkage, SHRINKAGES)
        raise ParamsError(f"shrinkage: neither a number nor a known estimate: {shrinkage!r}{hint}")
    return float(np.clip(above / below, 0, 1)) if below > 0 else 1.0


def _trace_of_square(lower: Matrix64) -> float:
    """Return tr(A²) of a symmetric matrix (D, D) from its lower triangle: 2 Σ_{i>j} a² + Σ_i a²."""
    diagonal = np.diag(lower)
    columns = (lower[j + 1 :, j] for j in range(len(lower)))
    return float(2 * sum(column @ column for column in columns) + diagonal @ diagonal)


def mahalanobis_logits(classifier: Classifier, deviations: Matrix) -> Matrix64:
    """Return −(μ−z)ᵀA⁻¹(μ−z), (n, C), up to a constant per row: the released code's logits."""
    return 2 * classifier.scores(deviations)
