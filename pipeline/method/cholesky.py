"""Cholesky factors and triangular solves by NumPy alone, which lets other threads run meanwhile.

SciPy's wrappers of BLAS and LAPACK (`blas.dgemm`, `lapack.dpotrf`, `solve_triangular`, `cho_solve`, …) hold Python's
global lock while they compute, so that seeds in threads wait for one another; NumPy's `@`, `cholesky` and `solve` let
go of it. NumPy has no triangular solve: by blocks it is almost nothing but products.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.errors import InputError
from pipeline.method.rows import Matrix64

BLOCK = 48  # rows that are solved for at a time, by the inverse of their block of the diagonal
SINGULAR = "the covariance is singular: give a larger ridge or shrinkage; a ridge below 1e-3 needs arithmetic: float64"


@dataclass(frozen=True, eq=False)
class Factor:
    """A = L·Lᵀ, to be solved with."""

    lower: Matrix64  # (D, D) L

    @cached_property
    def _blocks(self) -> list[tuple[slice, Matrix64]]:
        """Blocks of rows, and the inverses (b, b) of their blocks of the diagonal."""
        L, D = self.lower, len(self.lower)
        blocks = [slice(start, min(start + BLOCK, D)) for start in range(0, D, BLOCK)]
        diagonal = np.tile(np.eye(BLOCK), (len(blocks), 1, 1))
        corners = [slice(rows.stop - rows.start) for rows in blocks]  # the last one may be smaller
        for one, rows, b in zip(diagonal, blocks, corners, strict=True):
            one[b, b] = L[rows, rows]
        inverses = np.linalg.inv(diagonal)  # in one call: a call for each takes longer than the products
        return [(rows, one[b, b]) for one, rows, b in zip(inverses, blocks, corners, strict=True)]

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
    """Return the factor of A (D, D), given its lower triangle."""
    try:
        return Factor(np.asarray(np.linalg.cholesky(triangle), dtype=np.float64))
    except np.linalg.LinAlgError:
        raise InputError(SINGULAR) from None


def solve(triangle: Matrix64, right: Matrix64) -> Matrix64:
    """Return A⁻¹·right, (D, k), of the lower triangle of a positive definite A (D, D)."""
    found = factor(triangle)
    return found.backward(found.forward(right))
