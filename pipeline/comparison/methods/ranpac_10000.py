"""RanPAC with its authors' 10,000 projections; see `ranpac` for the method and what else departs from them.

G (M, M) of M = 10,000 features takes 0.8 GB and its eigendecomposition minutes. With fewer rows than features the same
numbers follow from the rows' own Gram matrix: with B the rows √ω h and Y their √ω one-hot labels,

    G = BᵀB,  Q = BᵀY,  (G + λI)⁻¹Q = Bᵀ(BBᵀ + λI)⁻¹Y

B is kept as a factor of G, with no more rows than features: beyond that it is replaced by the triangle of its QR
decomposition, which has the same G and Q. No row is read again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pipeline.comparison.methods.ranpac import RIDGES, RidgeRegression
from pipeline.method.rows import Labels, Matrix64, Vector64

PROJECTIONS = 10_000  # M, the authors'


@dataclass(eq=False)
class Factor:
    """B (k, M), Y (k, C) and Σω (C,), by which G = BᵀB and Q = BᵀY are kept."""

    B: Matrix64
    Y: Matrix64
    weight: Vector64

    def grown(self, C: int) -> Factor:
        """Return the factor with further classes, C in all."""
        more = C - len(self.weight)
        return Factor(self.B, np.pad(self.Y, ((0, 0), (0, more))), np.pad(self.weight, (0, more)))

    def update(self, h: Matrix64, labels: Labels, weights: Vector64) -> None:
        """Add rows h (n, M)."""
        root, one_hot = np.sqrt(weights)[:, None], np.eye(len(self.weight))[labels]
        self._extend(root * h, root * one_hot, weights @ one_hot)

    def __add__(self, other: Factor) -> Factor:
        both = Factor(self.B, self.Y, self.weight)
        both._extend(other.B, other.Y, other.weight)
        return both

    def _extend(self, B: Matrix64, Y: Matrix64, weight: Vector64) -> None:
        self.B, self.Y = np.vstack([self.B, B]), np.vstack([self.Y, Y])
        self.weight = self.weight + weight
        if len(self.B) > self.B.shape[1]:
            Q, R = scipy.linalg.qr(self.B, mode="economic", check_finite=False)
            self.B, self.Y = R, Q.T @ self.Y

    def means(self) -> Matrix64:
        """Return the mean features (C, M); NaN for a class without rows."""
        return np.asarray(
            (self.Y.T @ self.B) / np.where(self.weight > 0, self.weight, np.nan)[:, None]
        )


def empty(C: int, M: int) -> Factor:
    """Return the factor of no row."""
    return Factor(np.zeros((0, M)), np.zeros((0, C)), np.zeros(C))


def held_out_errors(fitted: Factor, held: Factor) -> Vector64:
    """Return for each ridge the squared error on the held-out rows, up to a constant."""
    eigenvalues, V = scipy.linalg.eigh((fitted.B @ fitted.B.T), driver="evd", check_finite=False)
    rotated, across = V.T @ fitted.Y, (held.B @ fitted.B.T) @ V

    def error(ridge: float) -> float:
        predicted = across @ (rotated / (np.maximum(eigenvalues, 0) + ridge)[:, None])
        return float(np.sum((predicted - held.Y) ** 2))

    return np.array([error(ridge) for ridge in RIDGES])


def solve(factor: Factor, ridge: float) -> Matrix64:
    """Return Bᵀ(BBᵀ + λI)⁻¹Y (M, C)."""
    K = factor.B @ factor.B.T
    K[np.diag_indices_from(K)] += ridge
    try:
        inner = scipy.linalg.solve(K, factor.Y, assume_a="pos", check_finite=False)
    except scipy.linalg.LinAlgError:  # a ridge below rounding: LU, as the authors solve it
        inner = np.linalg.solve(K, factor.Y)
    return np.asarray(factor.B.T @ inner)


RANPAC = RidgeRegression("ranpac-10000", lambda: PROJECTIONS, empty, held_out_errors, solve)
METHODS = RANPAC.methods()
