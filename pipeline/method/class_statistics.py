"""Weighted class statistics that add: eqs. (9), (10), (16), (17) as sums about the basis's pivot.

What is kept of a set of rows δ = z − pivot with labels and weights ω: per class the number of rows,
Σω, Σω², Σωδ, and one pooled Σωδδᵀ. Batches, tasks and machines merge by ``+``, in any order; means
and covariance are derived when asked for.

Deviations from the paper, as in docs/method.md: the mean is Σωz / Σω, where (16) divides by n and so
shrinks it; the covariance is scatter / Σω, where (17) mixes N and Σω.

The rows' type decides the arithmetic, see `scatter_products`: float32 rows are multiplied in float32
and blocks of them summed in float64; float64 rows are float64 throughout, and then any batching gives
the same numbers to 1e-9 and better. The scatter is symmetric: only its lower triangle is computed,
and what stands above the diagonal means nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from pipeline.errors import InputError, ParamsError
from pipeline.method.blas_products import product
from pipeline.method.scatter_products import ROWS, add_product
from pipeline.method.zero_shot import Matrix

Vector64 = npt.NDArray[np.float64]
Matrix64 = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)  # two D×D matrices are not compared by ==
class ClassStatistics:
    """Sufficient statistics of weighted, labelled rows (n, D) of C classes.

    count (C,): rows; weight (C,): Σω; squared_weight (C,): Σω²; sums (C, D): Σωδ;
    scatter (D, D): Σωδδᵀ of all classes about the pivot, lower triangle, Fortran order.
    """

    count: Vector64
    weight: Vector64
    squared_weight: Vector64
    sums: Matrix64
    scatter: Matrix64

    @property
    def C(self) -> int:  # noqa: N802  the paper's name
        """Number of classes."""
        return int(self.sums.shape[0])

    @property
    def D(self) -> int:  # noqa: N802
        """Number of Fourier features."""
        return int(self.sums.shape[1])

    @property
    def total_weight(self) -> float:
        """Σω over all classes."""
        return float(self.weight.sum())

    @property
    def empty_classes(self) -> list[int]:
        """Classes of weight zero, which have no mean."""
        return [int(c) for c in np.flatnonzero(self.weight <= 0)]

    def __add__(self, other: ClassStatistics) -> ClassStatistics:
        """Merge; the one with fewer classes grows."""
        return self._combined(other, 1.0)

    def __sub__(self, other: ClassStatistics) -> ClassStatistics:
        """Take a part out again."""
        return self._combined(other, -1.0)

    def __iadd__(self, other: ClassStatistics) -> ClassStatistics:
        """Merge in place (no second D×D matrix), like an array's ``+=``; grows as ``+`` does."""
        if other.C > self.C:
            return self + other
        self._check_width(other)
        for field in fields(self):
            mine = getattr(self, field.name)
            theirs = getattr(other, field.name)
            mine[: len(theirs)] += theirs
        return self

    def _combined(self, other: ClassStatistics, sign: float) -> ClassStatistics:
        self._check_width(other)
        result = zeros(max(self.C, other.C), self.D)
        for field in fields(self):
            total = getattr(result, field.name)
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            total[: len(mine)] = mine
            total[: len(theirs)] += sign * theirs
        return result

    def _check_width(self, other: ClassStatistics) -> None:
        if self.D != other.D:
            raise InputError(f"statistics of D = {self.D} and D = {other.D} do not merge")

    def grown(self, C: int) -> ClassStatistics:
        """Return the same statistics among ``C`` classes: the new ones have no rows."""
        if C < self.C:
            raise ParamsError(f"statistics of {self.C} classes do not shrink to {C}")
        return self + zeros(C, self.D)

    def nested(self, D: int) -> ClassStatistics:
        """Return the statistics under the first ``D`` columns of the basis: a scaled sub-block."""
        if not 1 <= D <= self.D:
            raise ParamsError(f"rff.D: {D} features are not among the {self.D} of these statistics")
        ratio = self.D / D  # z carries sqrt(2/D), eq. (7)
        sums = math.sqrt(ratio) * self.sums[:, :D]
        scatter = np.asfortranarray(ratio * self.scatter[:D, :D])
        per_class = (self.count.copy(), self.weight.copy(), self.squared_weight.copy())
        return ClassStatistics(*per_class, sums, scatter)

    def means(self) -> Matrix64:
        """Return Σωδ / Σω, (C, D): class means less the pivot, eqs. (9), (16); NaN where empty."""
        weight = np.where(self.weight > 0, self.weight, np.nan)
        return np.asarray(self.sums / weight[:, None], dtype=np.float64)

    def within_scatter(self, *, overwrite: bool = False) -> Matrix64:
        """Return Σω(z − μ)(z − μ)ᵀ about the class means, (D, D), lower triangle.

        overwrite: in the memory of ``scatter``, which is lost: no second D×D matrix.
        """
        known = self.weight > 0
        scaled = self.sums[known] / np.sqrt(self.weight[known])[:, None]
        within = self.scatter if overwrite else self.scatter.copy(order="F")
        add_product(within, scaled, take_away=True)  # Σω(δ−m)(δ−m)ᵀ = Σωδδᵀ − Σ_c s_c s_cᵀ / Σω_c
        return within

    def covariance(self) -> Matrix64:
        """Return the shared covariance, eqs. (10), (17), within scatter / Σω, lower triangle."""
        if self.total_weight <= 0:
            raise InputError("covariance: no row has any weight")
        return np.asarray(self.within_scatter() / self.total_weight)

    def degrees_of_freedom(self) -> float:
        """Return the effective number of rows about the class means: Σ_c (Σω)²/Σω² − 1."""
        known = self.squared_weight > 0
        kish = self.weight[known] ** 2 / self.squared_weight[known]
        return float(np.maximum(kish - 1, 0).sum())

    def to_arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return plain arrays to save; the triangle is packed: D(D+1)/2 numbers."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays["scatter"] = packed(self.scatter)
        return arrays

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes as the packed triangle: half the bytes."""
        return ClassStatistics.from_arrays, (self.to_arrays(),)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.float64]]) -> ClassStatistics:
        """Read what `to_arrays` returned."""
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in arrays]
        if missing:
            raise InputError(f"statistics: no array {missing[0]!r}")
        D = arrays["sums"].shape[1]
        if arrays["scatter"].shape != (D * (D + 1) // 2,):
            shape = arrays["scatter"].shape
            raise InputError(f"statistics: scatter {shape} is not the packed triangle of D = {D}")
        full = {name: np.array(arrays[name], dtype=np.float64) for name in names}
        full["scatter"] = unpacked(full["scatter"])
        return cls(**full)


def zeros(C: int, D: int) -> ClassStatistics:
    """Return the statistics of no rows."""
    scatter = np.zeros((D, D), order="F")
    return ClassStatistics(np.zeros(C), np.zeros(C), np.zeros(C), np.zeros((C, D)), scatter)


def packed(triangle: Matrix64) -> Vector64:
    """Return the lower triangle of a (D, D) matrix as D(D+1)/2 numbers."""
    return np.asarray(lapack.dtrttp(triangle, uplo="L")[0], dtype=np.float64)


def unpacked(numbers: Vector64) -> Matrix64:
    """Return the (D, D) lower triangle, Fortran order, that `packed` packed."""
    D = (math.isqrt(8 * len(numbers) + 1) - 1) // 2
    return np.asfortranarray(np.tril(lapack.dtpttr(D, numbers, uplo="L")[0]))


def from_rows(
    deviations: Matrix, labels: Labels, weights: Matrix | None, C: int
) -> ClassStatistics:
    """Return the statistics of rows z − pivot (n, D), labels (n,) in [0, C), weights (n,) or 1."""
    statistics = zeros(C, deviations.shape[1])
    add_rows(statistics, deviations, labels, weights)
    return statistics


def add_rows(
    statistics: ClassStatistics, deviations: Matrix, labels: Labels, weights: Matrix | None
) -> None:
    """Fold rows into ``statistics``, in place: a stream needs no D×D matrix per batch."""
    omega = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
    _check_rows(statistics, deviations, labels, omega)
    C = statistics.C
    statistics.count[:] += np.bincount(labels, minlength=C)
    statistics.weight[:] += np.bincount(labels, omega, minlength=C)
    statistics.squared_weight[:] += np.bincount(labels, omega**2, minlength=C)
    for start in range(0, len(labels), ROWS):
        block = slice(start, start + ROWS)
        rows = deviations[block]
        present, place = np.unique(labels[block], return_inverse=True)
        one_hot = np.zeros((len(present), len(rows)), dtype=rows.dtype)
        one_hot[place, np.arange(len(rows))] = omega[block]
        statistics.sums[present] += product(one_hot, rows)
    add_product(statistics.scatter, deviations, None if weights is None else omega)


def _check_rows(s: ClassStatistics, deviations: Matrix, labels: Labels, weights: Vector64) -> None:
    n = len(labels)
    if deviations.shape != (n, s.D) or weights.shape != (n,):
        shapes = f"{deviations.shape}, labels ({n},), weights {weights.shape}"
        raise InputError(f"statistics: rows {shapes} do not belong together with D = {s.D}")
    if n and (labels.min() < 0 or labels.max() >= s.C):
        span = f"{labels.min()}–{labels.max()}"
        raise InputError(f"statistics: labels {span}, classes are 0–{s.C - 1}")
    if n and not weights.min() >= 0:
        raise InputError("statistics: a weight is negative or not a number")


def symmetric(lower: Matrix64) -> Matrix64:
    """Return the full symmetric matrix of a lower triangle."""
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)
