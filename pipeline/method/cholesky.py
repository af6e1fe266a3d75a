"""Cholesky factors and triangular solves by NumPy alone, which lets other threads run meanwhile.

SciPy's wrappers of BLAS and LAPACK (`blas.dgemm`, `lapack.dpotrf`, `solve_triangular`, `cho_solve`, …) hold Python's
global lock while they compute, so that seeds in threads wait for one another; NumPy's `@`, `cholesky` and `solve` let
go of it. NumPy has no triangular solve: by blocks it is almost nothing but products.
"""

from __future__ import annotations

import numpy as np

from pipeline.errors import InputError
from pipeline.method.rows import Matrix64

BLOCK = 48  # rows that are solved for at a time, by the inverse of their block of the diagonal
SINGULAR = "the covariance is singular: give a larger ridge or shrinkage; a ridge below 1e-3 needs arithmetic: float64"


def factor(triangle: Matrix64) -> Matrix64:
    """Return L (D, D) of A = L·Lᵀ, given the lower triangle of A.

    Examples
    --------
    >>> factor(np.array([[4.0, 9.0], [2.0, 2.0]]))
    array([[2., 0.],
           [1., 1.]])
    """
    try:
        return np.asarray(np.linalg.cholesky(triangle), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise InputError(SINGULAR) from None


def forward(lower: Matrix64, right: Matrix64) -> Matrix64:
    """Return L⁻¹·right, (D, k)."""
    solved = np.array(right, dtype=np.float64, order="C")
    for start in range(0, len(lower), BLOCK):
        block = slice(start, start + BLOCK)
        solved[block] -= lower[block, :start] @ solved[:start]
        solved[block] = np.linalg.inv(lower[block, block]) @ solved[block]
    return solved


def backward(lower: Matrix64, right: Matrix64) -> Matrix64:
    """Return L⁻ᵀ·right, (D, k)."""
    solved = np.array(right, dtype=np.float64, order="C")
    for start in reversed(range(0, len(lower), BLOCK)):
        block = slice(start, start + BLOCK)
        stop = min(start + BLOCK, len(lower))
        solved[block] -= lower[stop:, block].T @ solved[stop:]
        solved[block] = np.linalg.inv(lower[block, block]).T @ solved[block]
    return solved


def solve(triangle: Matrix64, right: Matrix64) -> Matrix64:
    """Return A⁻¹·right, (D, k), of the lower triangle of a positive definite A (D, D).

    Examples
    --------
    >>> solve(np.array([[2.0, 9.0], [0.0, 4.0]]), np.array([[2.0], [2.0]])).round(9).tolist()
    [[1.0], [0.5]]
    """
    lower = factor(triangle)
    return backward(lower, forward(lower, right))
