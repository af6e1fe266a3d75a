"""Cholesky factors and triangular solves with NumPy alone, so that other threads can run meanwhile.

SciPy's wrappers of BLAS and LAPACK (`blas.dgemm`, `lapack.dpotrf`, `solve_triangular`, `cho_solve`, …) hold the GIL
while they compute, so that seeds in threads wait for one another; NumPy's `@`, `cholesky` and `solve` release it. NumPy
has no triangular solve. Done by blocks, it consists almost entirely of products.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.errors import InputError
from pipeline.method.rows import Matrix64

BLOCK = 48  # rows solved at a time with the inverse of their diagonal block
SINGULAR = "the covariance is singular: give a larger ridge or shrinkage; a ridge below 1e-3 needs arithmetic: float64"


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor L of A = L·Lᵀ."""

    lower: Matrix64  # L (D, D)

    @cached_property
    def _blocks(self) -> list[tuple[slice, Matrix64]]:
        """Pairs (block of rows, inverse (b, b) of its diagonal block)."""
        L, D = self.lower, len(self.lower)
        blocks = [slice(start, min(start + BLOCK, D)) for start in range(0, D, BLOCK)]
        diagonal = np.tile(np.eye(BLOCK), (len(blocks), 1, 1))
        corners = [slice(rows.stop - rows.start) for rows in blocks]  # the last one may be smaller
        for matrix, rows, b in zip(diagonal, blocks, corners, strict=True):
            matrix[b, b] = L[rows, rows]
        inverses = np.linalg.inv(diagonal)  # one call: a call per block would take longer than the products
        return [(rows, inverse[b, b]) for inverse, rows, b in zip(inverses, blocks, corners, strict=True)]

    def forward(self, right: Matrix64) -> Matrix64:
        """Return L⁻¹·right, (D, k)."""
        solved = np.array(right, dtype=np.float64, order="C")
        for rows, inverse in self._blocks:
            solved[rows] -= self.lower[rows, : rows.start] @ solved[: rows.start]
            solved[rows] = inverse @ solved[rows]
        return solved

    def backward(self, right: Matrix64) -> Matrix64:
        """Return L⁻ᵀ·right, (D, k)."""
        solved = np.array(right, dtype=np.float64, order="C")
        for rows, inverse in reversed(self._blocks):
            solved[rows] -= self.lower[rows.stop :, rows].T @ solved[rows.stop :]
            solved[rows] = inverse.T @ solved[rows]
        return solved


def factor(triangle: Matrix64) -> Factor:
    """Return the Cholesky factor of A (D, D), given its lower triangle."""
    try:
        return Factor(np.asarray(np.linalg.cholesky(triangle), dtype=np.float64))
    except np.linalg.LinAlgError:
        raise InputError(SINGULAR) from None


def solve(triangle: Matrix64, right: Matrix64) -> Matrix64:
    """Return A⁻¹·right, (D, k), given the lower triangle of a positive definite A (D, D)."""
    L = factor(triangle)
    return L.backward(L.forward(right))
