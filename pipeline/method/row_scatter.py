"""A scatter kept as the rows that span it, ready to be solved with: the dual form, for fewer rows than features.

With R (m, D) the rows of S = RᵀR,

    (S + κI)⁻¹ B = (B − Rᵀ (RRᵀ + κI)⁻¹ R B) / κ                              (Woodbury)

needs a factor of m×m numbers instead of D×D. Rows that come later border the Gram matrix, so its Cholesky factor grows
and nothing is factored twice: all tasks together cost one factorisation of the last one's size. The difference above
loses as many digits as λ_max(S)/κ has; `grown` refuses beyond `DIGITS`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pipeline.method.blas_products import gram, product
from pipeline.method.class_statistics import Matrix64
from pipeline.method.scatter_products import add_product

DIGITS = 1e9  # of float64's 1e16: what is left agrees with the D×D solution to about 1e-7
ROWS_PER_FEATURE = 1.25  # by multiplications, at five equal tasks: above it D×D is cheaper


@dataclass(frozen=True, eq=False)
class RowScatter:
    """blocks: R (m, D) in the pieces it grew by. lower: (m, m) Cholesky factor of RRᵀ + ridge·I. squares: tr RRᵀ."""

    D: int
    blocks: tuple[Matrix64, ...]
    lower: Matrix64
    ridge: float
    squares: float = 0.0

    def has_room(self, rows: int) -> bool:
        """Is this form still the cheaper one with so many more rows?"""
        return bool(len(self.lower) + rows <= ROWS_PER_FEATURE * self.D)

    def grown(self, rows: Matrix64) -> RowScatter | None:
        """Return the scatter with the rows (k, D) too; None where the ridge is too small for this form."""
        m, k = len(self.lower), len(rows)
        squares = self.squares + float(np.einsum("kd,kd->", rows, rows))
        if not squares <= DIGITS * self.ridge:  # not finite: no either
            return None
        if not k:
            return self
        lower = np.zeros((m + k, m + k), order="F")
        lower[:m, :m] = self.lower
        own = gram(rows.T)
        own[np.diag_indices(k)] += self.ridge
        if m:
            cross = self._rows_times(rows.T)  # (m, k)
            side = scipy.linalg.solve_triangular(self.lower, cross, lower=True, check_finite=False)
            lower[m:, :m] = side.T
            own -= gram(side)
        lower[m:, m:] = scipy.linalg.cholesky(own, lower=True, check_finite=False)
        return RowScatter(self.D, (*self.blocks, rows), lower, self.ridge, squares)

    def solve(self, right: Matrix64) -> Matrix64:
        """Return (S + ridge·I)⁻¹·right, (D, C)."""
        if not self.blocks:
            return right / self.ridge
        inner = scipy.linalg.cho_solve(
            (self.lower, True), self._rows_times(right), check_finite=False
        )
        solved, start = right.copy(), 0
        for block in self.blocks:
            solved -= product(block.T, inner[start : start + len(block)])
            start += len(block)
        solved /= self.ridge
        return solved

    def _rows_times(self, right: Matrix64) -> Matrix64:
        """Return R·right, (m, C)."""
        return np.vstack([product(block, right) for block in self.blocks])

    def dense(self) -> Matrix64:
        """Return S, (D, D), lower triangle."""
        scatter = np.zeros((self.D, self.D), order="F")
        for block in self.blocks:
            add_product(scatter, block)
        return scatter


def no_rows(D: int, ridge: float) -> RowScatter:
    """Return the scatter of no rows."""
    return RowScatter(D, (), np.zeros((0, 0), order="F"), ridge)
