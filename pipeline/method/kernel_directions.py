"""A subspace of d + 1 directions that holds nearly all of D Fourier features when gamma is small.

An approximation, taken where it leaves out less than a hundredth of the scores; `arithmetic: float64` turns it off.

For unit rows and a small gamma the phases a = ωᵀx are small, and eq. (7) about the pivot is

    z(x) − z(0) = sqrt(2/D) · (−sin β ∘ a − ½ cos β ∘ a² + …),     a = ωᵀx

The first term lies in the d-dimensional column space of diag(sin β)·ωᵀ, whatever x is, and the mean of the second along
cos β. With Q an orthonormal basis of both, (D, d + 1), what Qᵀ(z − z(0)) leaves out has the energy 2·gamma² per row
on average over the frequencies, spread over the D − d − 1 other directions, beside 2·gamma for the first term.

The ridge λ·tr A/D is added to every direction, and tr A is at most 2·gamma: all that is left out is about gamma·D/λ
ridges, a small part of a ridge in each of the directions. The d directions that are kept carry about one unit of a
squared Mahalanobis distance each, so `left_out`, gamma·D/(λ·d), is the part of the scores that is lost. An isotropic
ridge is the same in every orthonormal basis: the statistics of Qᵀ(z − z(0)) with the ridge of D features give the
scores of the full path but for that part. They are sums like the others and add exactly.

Measured for `calibrated` against the full path: where `left_out` is 0.4% or less, scores differ by at most 0.5% of
their standard deviation, and 1 of 3,812 labels does; at 0.8% by 1.1%, and 3 of 6,790 predictions; at 2%, beyond what is
done here, by 2.8%, and 12 of 16,975. Scatter and factor shrink by (D/r)² and (D/r)³: 22 and 100 times at D = 6000 with
ViT-B and CLIP (r = 1281). The first term alone, a linear map of x, differs two to ten times as much.
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

TOLERANCE = 0.01  # of the scores may be left out
SHARE = 2 / 3  # of D: with more directions than this little is gained


def directions_kept(d: int, D: int, gamma: float, options: MethodOptions) -> int:
    """Return how many directions count: d + 1, or D where all do or little is gained.

    ``d`` is the width of the kernel's rows, CLIP's included if they enter. ``gamma`` is the largest of all seeds, since
    their statistics are one array. Only exact float32 statistics with a relative ridge are reduced.

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
        and left_out(d, D, gamma, options) < TOLERANCE
    )
    return d + 1 if reducible and d + 1 <= SHARE * D else D


def left_out(d: int, D: int, gamma: float, options: MethodOptions) -> float:
    """Return about which part of the scores d + 1 directions leave out, under the smaller ridge."""
    ridge = min(options.ridge, options.source_ridge)
    return gamma * D / (ridge * d) if ridge > 0 else math.inf


def reduced(basis: Basis, options: MethodOptions) -> Basis:
    """Return the basis with the directions that count, or as it is where all do.

    ``basis`` is as drawn: vision and CLIP frequencies apart.
    """
    joint = bool(options.clip_in_kernel) and basis.clip_omega is not None
    kernel = basis.joint() if joint else basis
    if directions_kept(kernel.d, basis.D, basis.largest_gamma, options) == basis.D:
        return basis
    return replace(basis, directions=nested_directions(kernel, [basis.D])[basis.D])


def in_all_features(basis: Basis, classifier: Classifier) -> Classifier:
    """Return a classifier of the kept directions as one of all D features, which scores without directions."""
    if basis.directions is None:
        return classifier
    return Classifier(basis.directions.Q.astype(np.float64) @ classifier.W, classifier.b)


def in_kept_directions(basis: Basis, classifier: Classifier) -> Classifier:
    """Return a classifier of all D features as one of the kept directions: the inverse of `in_all_features`."""
    if basis.directions is None:
        return classifier
    return Classifier(basis.directions.Q.T.astype(np.float64) @ classifier.W, classifier.b)


def nested_directions(basis: Basis, widths: Iterable[int]) -> dict[int, Directions]:
    """Return, by D, the directions of the first D features: Q (D, d + 1), orthonormal, spans diag(sin β)·ωᵀ and cos β.

    A width of which d + 1 directions are more than `SHARE` is left out. MᵀM is a sum over features, which a larger D
    continues: all ``widths`` together take the products of the largest.
    """
    beta = basis.beta.astype(np.float64)
    unit = basis.omega.astype(np.float64).T / math.sqrt(2 * basis.gamma)  # standard normal
    absent = ~unit.any(axis=0)  # of a model joined with weight 0: any other direction serves
    unit[:, absent] = np.random.default_rng(0).standard_normal((len(unit), int(absent.sum())))
    columns = np.column_stack([np.sin(beta)[:, None] * unit, np.cos(beta)])
    spanned, gram, found = columns.astype(np.float32), np.zeros((basis.d + 1, basis.d + 1)), {}
    for start, D in pairwise([0, *sorted(set(widths))]):
        gram += columns[start:D].T @ columns[start:D]
        if basis.d + 1 <= SHARE * D:
            # Q = M·R⁻¹ with RᵀR = MᵀM: a third of a Householder QR. M is random, so its condition is below 10 by
            # `SHARE`, times the largest ratio of the weights of joined models
            inverse = factor(gram).forward(np.eye(len(gram))).T
            found[D] = Directions(spanned[:D], inverse.astype(np.float32))
    return found
