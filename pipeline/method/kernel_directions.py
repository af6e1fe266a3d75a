"""Project D Fourier features on d + 1 directions, which contain nearly all of their variation if gamma is small.

The approximation is used where it loses less than a hundredth of the scores; `arithmetic: float64` turns it off.

For unit rows and a small gamma the phases a = ωᵀx are small, and eq. (7) about the pivot is

    z(x) − z(0) = sqrt(2/D) · (−sin β ∘ a − ½ cos β ∘ a² + …),     a = ωᵀx

For every x, the first term lies in the d-dimensional column space of diag(sin β)·ωᵀ; the mean of the second lies along
cos β. Let Q (D, d + 1) be an orthonormal basis of both. The part of z − z(0) outside Q has an energy of 2·gamma² per
row on average over the frequencies, spread over the D − d − 1 other directions; the first term has 2·gamma.

The ridge λ·tr A/D is added to every direction, and tr A is at most 2·gamma. The part outside Q amounts to about
gamma·D/λ ridges in total, a small fraction of a ridge in each direction. Each of the d kept directions contributes
about one unit to a squared Mahalanobis distance, so about gamma·D/(λ·d) of the scores is lost (`estimated_loss`). An
isotropic ridge is the same in every orthonormal basis. So the statistics of Qᵀ(z − z(0)) with the ridge of D features
give the scores of the full path except for that part. They are sums like the others and add exactly.

Measured for `calibrated` against the full path: with an estimated loss of up to 0.4%, scores differ by at most 0.5% of
their standard deviation, and 1 of 3,812 labels differs; at 0.8%, by 1.1%, and 3 of 6,790 predictions; at 2%, which is
never used, by 2.8%, and 12 of 16,975. Scatter and factor shrink by (D/r)² and (D/r)³: 22 and 100 times at D = 6000 with
ViT-B and CLIP (r = 1281). With the first term alone, a linear map of x, differences are two to ten times as large.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pipeline.method.cholesky import factor
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import Basis, Directions
from pipeline.method.variants import MethodOptions

TOLERANCE = 0.01  # maximum estimated loss
SHARE = 2 / 3  # maximum share of D directions to keep: with more, little is gained


def directions_kept(d: int, D: int, gamma: float, options: MethodOptions) -> int:
    """Return how many directions to keep: d + 1, or D if the loss would be too large or the gain too small.

    ``d`` is the width of the kernel's rows, including CLIP's if used. ``gamma`` is the largest of all seeds, whose
    statistics share one array. Only exact float32 statistics with a relative ridge are reduced.

    Examples
    --------
    >>> from pipeline.method.variants import CALIBRATED, PAPER
    >>> directions_kept(192, 1000, 1e-4, CALIBRATED), directions_kept(128, 1000, 1e-4, PAPER)
    (193, 1000)
    """
    reducible = (
        options.statistics == "exact"
        and options.arithmetic == "float32"
        and options.ridge_kind == "relative"
        and options.shrinkage is None
        and estimated_loss(d, D, gamma, options) < TOLERANCE
    )
    return d + 1 if reducible and d + 1 <= SHARE * D else D


def estimated_loss(d: int, D: int, gamma: float, options: MethodOptions) -> float:
    """Estimate the fraction of the scores that is lost with d + 1 directions, given the smaller ridge."""
    ridge = min(options.ridge, options.source_ridge)
    return gamma * D / (ridge * d) if ridge > 0 else math.inf


def reduced(basis: Basis, options: MethodOptions) -> Basis:
    """Return the basis with the directions to keep, or unchanged if all are kept.

    ``basis`` is as drawn, with separate vision and CLIP frequencies.
    """
    joint = bool(options.clip_in_kernel) and basis.clip_omega is not None
    kernel = basis.joint() if joint else basis
    if directions_kept(kernel.d, basis.D, basis.largest_gamma, options) == basis.D:
        return basis
    return replace(basis, directions=nested_directions(kernel, [basis.D])[basis.D])


def in_all_features(basis: Basis, classifier: Classifier) -> Classifier:
    """Return a classifier of the kept directions converted to all D features."""
    if basis.directions is None:
        return classifier
    return Classifier(basis.directions.Q.astype(np.float64) @ classifier.W, classifier.b)


def in_kept_directions(basis: Basis, classifier: Classifier) -> Classifier:
    """Return a classifier of all D features converted to the kept directions; the inverse of `in_all_features`."""
    if basis.directions is None:
        return classifier
    return Classifier(basis.directions.Q.T.astype(np.float64) @ classifier.W, classifier.b)


def nested_directions(basis: Basis, widths: Iterable[int]) -> dict[int, Directions]:
    """Return, for each width D, orthonormal directions Q (D, d + 1) that span diag(sin β)·ωᵀ and cos β.

    Widths of which d + 1 is more than `SHARE` are omitted. MᵀM is a sum over features, which is continued for larger D,
    so all ``widths`` together take the products of the largest.
    """
    beta = basis.beta.astype(np.float64)
    unit = basis.omega.astype(np.float64).T / math.sqrt(2 * basis.gamma)  # standard normal
    absent = ~unit.any(axis=0)  # columns of a joined model of weight 0: any other directions will do
    unit[:, absent] = np.random.default_rng(0).standard_normal((len(unit), int(absent.sum())))
    columns = np.column_stack([np.sin(beta)[:, None] * unit, np.cos(beta)])
    columns32, gram, directions = columns.astype(np.float32), np.zeros((basis.d + 1, basis.d + 1)), {}
    for start, D in pairwise([0, *sorted(set(widths))]):
        gram += columns[start:D].T @ columns[start:D]
        if basis.d + 1 <= SHARE * D:
            # Q = M·R⁻¹ with RᵀR = MᵀM: a third of the cost of a Householder QR. M is random, so with `SHARE` its
            # condition is below 10, times the largest ratio of the weights of joined models
            inverse = factor(gram).forward(np.eye(len(gram))).T
            directions[D] = Directions(columns32[:D], inverse.astype(np.float32))
    return directions
