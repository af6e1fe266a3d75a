"""Additive, weighted class statistics: eqs. (9), (10), (16), (17) as sums about the basis's pivot.

For rows δ = z − pivot with labels and weights ω, each class keeps the number of rows, Σω, Σω² and Σωδ, and all classes
share one Σωδδᵀ. A row of several classes enters each with ω times its share. Statistics of batches, tasks or machines
are merged by ``+`` in any order, and a class may return later. Means and covariance are derived from the sums.

Deviations from the paper (docs/method.md): the mean is Σωz / Σω, where (16) divides by n and so shrinks it, and the
covariance is scatter / Σω, where (17) mixes N and Σω.

The dtype of the rows decides the arithmetic, see `add_product`. The scatter is symmetric: only its lower triangle is
computed, and the values above the diagonal are undefined.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pipeline.errors import InputError, listed
from pipeline.method.rows import Labels, Matrix, Matrix64, Shares, Vector64
from pipeline.method.within_scatter import ROWS, DenseScatter, add_product


@dataclass(frozen=True, eq=False)  # never compare D×D matrices with ==
class ClassStatistics:
    """Sufficient statistics of weighted, labelled rows (n, D) of C classes.

    Examples
    --------
    >>> rows, labels = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]]), np.array([0, 0, 1])
    >>> whole = zeros(2, 2).update(rows, labels)
    >>> whole.means()
    array([[2., 0.],
           [0., 2.]])
    >>> symmetric(whole.within().triangle)
    array([[2., 0.],
           [0., 0.]])
    >>> parts = zeros(2, 2).update(rows[:1], labels[:1]) + zeros(2, 2).update(rows[1:], labels[1:])
    >>> bool((parts.means() == whole.means()).all())
    True
    """

    count: Vector64  # (C,) number of rows of each class
    weight: Vector64  # (C,) Σω of each class
    squared_weight: Vector64  # (C,) Σω² of each class
    sums: Matrix64  # (C, D) Σωδ of each class
    scatter: Matrix64  # (D, D) Σωδδᵀ of all classes about the pivot; lower triangle, Fortran order

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

    def update(
        self, deviations: Matrix, labels: Shares, weights: Vector64 | None = None, in_scatter: Vector64 | None = None
    ) -> "ClassStatistics":
        """Add rows z − pivot (n, D) in place, without a D×D matrix per batch, and return the statistics.

        Parameters
        ----------
        labels : ndarray of shape (n,) or (n, K)
            Class of each row, 0 to C − 1, or each row's shares in the first K classes, which sum to 1.
        weights : ndarray of shape (n,), optional
            Nonnegative weights. Ones if omitted.
        in_scatter : ndarray of shape (n,), optional
            Former weights of rows that are in the scatter already, and in no other sum. Only the difference of the weights
            is added to the scatter.

        Examples
        --------
        >>> statistics = zeros(2, 1).update(np.array([[4.0]]), np.array([[0.25, 0.75]]))
        >>> statistics.sums.tolist(), statistics.count.tolist()
        ([[1.0], [3.0]], [0.25, 0.75])
        """
        omega = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
        if labels.ndim == 1 and len(labels) and (labels.min() < 0 or labels.max() >= self.C):
            raise InputError(f"statistics: labels {labels.min()}–{labels.max()}, classes are 0–{self.C - 1}")
        if not (omega >= 0).all():
            raise InputError("statistics: a weight is negative or not a number")
        for start in range(0, len(labels), ROWS):
            block = slice(start, start + ROWS)
            present, shares = class_shares(labels[block])
            weighted = omega[block, None] * shares
            self.count[present] += shares.sum(axis=0)
            self.weight[present] += weighted.sum(axis=0)
            self.squared_weight[present] += (weighted**2).sum(axis=0)
            self.sums[present] += weighted.T.astype(deviations.dtype) @ deviations[block]
        if in_scatter is None:
            add_product(self.scatter, deviations, None if weights is None else omega)
            return self
        changed = omega.astype(deviations.dtype) != in_scatter.astype(deviations.dtype)
        for larger, smaller in ((omega, in_scatter), (in_scatter, omega)):
            index = np.flatnonzero(changed & (larger > smaller))
            add_product(self.scatter, deviations[index], (larger - smaller)[index], subtract=larger is in_scatter)
        return self

    def __add__(self, other: "ClassStatistics") -> "ClassStatistics":
        """Return the merged statistics, with as many classes as the larger of the two."""
        result = zeros(max(self.C, other.C), self.D)
        result += self
        result += other
        return result

    def __iadd__(self, other: "ClassStatistics") -> "ClassStatistics":
        """Merge in place, without another D×D matrix, unless ``other`` has more classes."""
        if self.D != other.D:
            raise InputError(f"statistics of D = {self.D} and D = {other.D} do not merge")
        if other.C > self.C:
            return self + other
        for field in fields(self):
            total, added = getattr(self, field.name), getattr(other, field.name)
            total[: len(added)] += added
        return self

    def grown(self, C: int, scatter: Matrix64 | None = None) -> "ClassStatistics":
        """Return a copy with ``C`` classes, the new ones without rows; a given ``scatter`` is used without copying."""
        per_class = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "scatter"}
        padded = {name: np.pad(x, [(0, C - self.C), *[(0, 0)] * (x.ndim - 1)]) for name, x in per_class.items()}
        return ClassStatistics(**padded, scatter=self.scatter.copy(order="F") if scatter is None else scatter)

    def means(self) -> Matrix64:
        """Return Σωδ / Σω, (C, D): class means less the pivot, eqs. (9), (16); NaN for a class without weight."""
        weight = np.where(self.weight > 0, self.weight, np.nan)
        return np.asarray(self.sums / weight[:, None], dtype=np.float64)

    def within(self) -> DenseScatter:
        """Return the scatter Σω(z − μ)(z − μ)ᵀ about the class means as a new array."""
        known = self.weight > 0
        scaled = self.sums[known] / np.sqrt(self.weight[known])[:, None]
        within = self.scatter.copy(order="F")
        add_product(within, scaled, subtract=True)  # Σω(δ−m)(δ−m)ᵀ = Σωδδᵀ − Σ_c s_c s_cᵀ / Σω_c
        return DenseScatter(within, self.total_weight, self.degrees_of_freedom())

    def scatter_about(self, centres: Matrix64) -> Matrix64:
        """Return the lower triangle of Σω(δ − c)(δ − c)ᵀ about any class centres c (C, D) as a new array."""
        known = self.weight > 0
        offset = centres[known] - self.means()[known]
        scatter = self.within().triangle
        add_product(scatter, offset, self.weight[known])  # … = within + Σ_c Σω_c (m_c − c)(m_c − c)ᵀ
        return scatter

    def degrees_of_freedom(self) -> float:
        """Return the effective number of rows about the class means: Σ_c (Σω)²/Σω² − 1."""
        known = self.squared_weight > 0
        kish = self.weight[known] ** 2 / self.squared_weight[known]
        return float(np.maximum(kish - 1, 0).sum())

    def to_arrays(self) -> dict[str, Matrix64]:
        """Return the arrays by name, with the triangle packed into D(D+1)/2 numbers."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**arrays, "scatter": packed(self.scatter)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Matrix64]) -> "ClassStatistics":
        """Return the statistics with the arrays of `to_arrays`; raise InputError if another version made them."""
        if {*arrays} != {field.name for field in fields(cls)}:
            raise InputError(f"statistics of another version, with the sums {listed(arrays)}; make them again")
        return cls(**{**arrays, "scatter": unpacked(arrays["scatter"])})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the packed triangle, half the bytes."""
        return ClassStatistics.from_arrays, (self.to_arrays(),)


def class_shares(labels: Shares) -> tuple[Labels, Matrix64]:
    """Return the classes (c,) that occur among n rows, and the share (n, c) of each row in each of them."""
    if labels.ndim == 2:
        present = np.flatnonzero(labels.any(axis=0))
        return present, np.asarray(labels[:, present], dtype=np.float64)
    present, position = np.unique(labels, return_inverse=True)
    return present, np.eye(len(present))[position]


def zeros(C: int, D: int) -> ClassStatistics:
    """Return empty statistics for ``C`` classes and ``D`` features."""
    count, weight, squared_weight = np.zeros((3, C))
    return ClassStatistics(count, weight, squared_weight, np.zeros((C, D)), np.zeros((D, D), order="F"))


def packed(triangle: Matrix64) -> Vector64:
    """Return the lower triangle of a (D, D) matrix, column by column, as D(D+1)/2 numbers."""
    return np.concatenate([triangle[j:, j] for j in range(len(triangle))])


def unpacked(numbers: Vector64) -> Matrix64:
    """Return the (D, D) lower triangle in Fortran order; the inverse of `packed`."""
    D = (math.isqrt(8 * len(numbers) + 1) - 1) // 2
    triangle, start = np.zeros((D, D), order="F"), 0
    for j in range(D):
        triangle[j:, j] = numbers[start : start + D - j]
        start += D - j
    return triangle


def symmetric(lower: Matrix64) -> Matrix64:
    """Return the full symmetric matrix of a lower triangle; values above the diagonal are ignored."""
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)
