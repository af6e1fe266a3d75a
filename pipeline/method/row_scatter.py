"""A scatter kept as the rows that span it, ready to be solved with: the dual form, for fewer rows than features.

With R (m, D) the rows of S = RᵀR,

    (S + κI)⁻¹ B = (B − Rᵀ (RRᵀ + κI)⁻¹ R B) / κ                              (Woodbury)

needs a factor of m×m numbers instead of D×D. Rows that come later border the Gram matrix, so its Cholesky factor grows
and nothing is factored twice: all tasks together cost one factorisation of the last one's size. The factor is kept in
the blocks it grew by, so that growing copies nothing and almost all of the arithmetic is plain products:

    L = ⎡ L₁            ⎤
        ⎢ S₂ᵀ    L₂     ⎥      Sᵢ = L₁…ᵢ₋₁⁻¹ R₁…ᵢ₋₁ Rᵢᵀ,   Lᵢ Lᵢᵀ = RᵢRᵢᵀ + κI − SᵢᵀSᵢ
        ⎣ S₃ᵀ ……     L₃ ⎦

The difference above loses as many digits as λ_max(S)/κ has; `grown` refuses beyond `DIGITS`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError
from pipeline.method.cholesky import Factor, factor
from pipeline.method.rows import Matrix64
from pipeline.method.within_scatter import add_product

DIGITS = 1e9  # of float64's 1e16: what is left agrees with the D×D solution to about 1e-7
ROWS_PER_FEATURE = 1.25  # by multiplications, at five equal tasks: above it D×D is cheaper


@dataclass(frozen=True, eq=False)
class Border:
    """What one piece of rows added."""

    rows: Matrix64  # (k, D) Rᵢ
    sides: tuple[Matrix64, ...]  # (k', k) Sᵢ, in the pieces that came before
    own: Factor  # of Lᵢ (k, k)


@dataclass(frozen=True, eq=False)
class RowScatter:
    """The scatter RᵀR of rows, with the Cholesky factor of RRᵀ + κI; a `Scatter` that is never divided or shrunk."""

    D: int
    borders: tuple[Border, ...]  # the pieces it grew by, in order
    ridge: float  # κ
    squares: float = 0.0  # tr RRᵀ

    def __len__(self) -> int:
        return sum(len(border.rows) for border in self.borders)

    @property
    def total(self) -> float:
        """1: the scatter is not divided."""
        return 1.0

    def trace(self) -> float:
        """Return the trace of the scatter."""
        return self.squares

    def shrink(self, shrinkage: float | str) -> None:
        """Refuse: the form is for a scatter to which only a ridge is added."""
        raise NotImplementedError(f"shrinkage {shrinkage!r} of a scatter that is kept as rows")

    def has_room(self, rows: int) -> bool:
        """Return whether this form is still the cheaper one with so many more rows."""
        return bool(len(self) + rows <= ROWS_PER_FEATURE * self.D)

    def grown(self, rows: Matrix64) -> RowScatter | None:
        """Return the scatter with the rows (k, D) too; None where the ridge is too small for this form."""
        squares = self.squares + float(np.einsum("kd,kd->", rows, rows))
        if not squares <= DIGITS * self.ridge:  # not finite: no either
            return None
        if not len(rows):
            return self
        rows = np.ascontiguousarray(rows)
        sides = self._forward(rows.T)
        own = rows @ rows.T
        own[np.diag_indices_from(own)] += self.ridge
        for side in sides:
            own -= side.T @ side
        try:
            border = Border(rows, tuple(sides), factor(own))
        except InputError:
            return None
        return RowScatter(self.D, (*self.borders, border), self.ridge, squares)

    def solve(self, right: Matrix64, ridge: float) -> Matrix64:
        """Return (S + ridge·I)⁻¹·right, (D, C), for the ridge that the factor was made with."""
        if ridge != self.ridge:
            raise ValueError(f"the factor is for a ridge of {self.ridge}, not {ridge}")
        solved = np.array(right, order="C")
        halves = self._forward(right)
        for i in reversed(range(len(self.borders))):  # L⁻ᵀ, from the last block on
            border = self.borders[i]
            inner = border.own.backward(halves[i])
            for earlier, side in enumerate(border.sides):
                halves[earlier] -= side @ inner
            solved -= border.rows.T @ inner
        solved /= self.ridge
        return solved

    def _forward(self, right: Matrix64) -> list[Matrix64]:
        """Return L⁻¹ R·right in the borders' blocks (k, C)."""
        halves = list[Matrix64]()
        for border in self.borders:
            half = border.rows @ right
            for side, before in zip(border.sides, halves, strict=True):
                half -= side.T @ before
            halves.append(border.own.forward(half))
        return halves

    def dense(self) -> Matrix64:
        """Return S, (D, D), lower triangle."""
        scatter = np.zeros((self.D, self.D), order="F")
        for border in self.borders:
            add_product(scatter, border.rows)
        return scatter
