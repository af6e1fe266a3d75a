"""A within-class scatter that can be solved with, in two forms, and Σ ω r rᵀ, the sums that it is made of.

`DenseScatter` is a triangle. `RowScatter` is the dual form, for fewer rows than features: with R (m, D) the rows of
S = RᵀR,

    (S + κI)⁻¹ B = (B − Rᵀ (RRᵀ + κI)⁻¹ R B) / κ                              (Woodbury)

needs a factor of m×m numbers instead of D×D. Rows that come later border the Gram matrix, so its Cholesky factor grows
and nothing is factored twice: all tasks together cost one factorisation of the last one's size. The factor is kept in
the blocks it grew by, so that growing copies nothing and almost all of the arithmetic is plain products:

    L = ⎡ L₁            ⎤
        ⎢ S₂ᵀ    L₂     ⎥      Sᵢ = L₁…ᵢ₋₁⁻¹ R₁…ᵢ₋₁ Rᵢᵀ,   Lᵢ Lᵢᵀ = RᵢRᵢᵀ + κI − SᵢᵀSᵢ
        ⎣ S₃ᵀ ……     L₃ ⎦

The difference above loses as many digits as λ_max(S)/κ has; `RowScatter.grown` refuses beyond `DIGITS`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError, ParamsError
from pipeline.method import cholesky
from pipeline.method.cholesky import Factor, factor
from pipeline.method.rows import Matrix, Matrix64

Shrinkage = float | Literal["oas", "ledoit_wolf"] | None
SHRINKAGES = ("oas", "ledoit_wolf")
DIGITS = 1e9  # of float64's 1e16: what is left agrees with the D×D solution to about 1e-7
ROWS_PER_FEATURE = 1.25  # by multiplications, at five equal tasks: above it D×D is cheaper
COLUMNS = 320  # of the triangle that are added at a time: as fast as one product, without a second D×D matrix
ROWS = 4096  # of a block: bounds the memory; what is summed in float32 before float64 takes over


@dataclass(eq=False)
class DenseScatter:
    """A scatter as a lower triangle, solved with by Cholesky."""

    triangle: Matrix64  # (D, D) lower triangle, Fortran order
    total: float  # Σω, which divides the scatter into a covariance
    degrees: float  # effective number of rows about the class means

    def trace(self) -> float:
        """Return the trace of the scatter."""
        return float(np.trace(self.triangle))

    def shrink(self, shrinkage: float | str) -> None:
        """Shrink in place, see `shrinkage_intensity`."""
        rho = shrinkage_intensity(self.triangle, shrinkage, self.degrees)
        target = rho * np.trace(self.triangle) / len(self.triangle)
        self.triangle *= 1 - rho
        self.triangle[np.diag_indices_from(self.triangle)] += target

    def solve(self, right: Matrix64, ridge: float) -> Matrix64:
        """Return (S + ridge·I)⁻¹ right, (D, C); the ridge is added to the triangle in place."""
        self.triangle[np.diag_indices_from(self.triangle)] += ridge
        return cholesky.solve(self.triangle, right)


def shrinkage_intensity(triangle: Matrix64, shrinkage: float | str, n: float) -> float:
    """Return ρ in [0, 1] of the shrinkage (1 − ρ) A + ρ (tr A / D) I of a triangle A (D, D), of about n rows.

    ρ is a number; the oracle approximating estimate of it (``oas``); or Ledoit and Wolf's in its Rao-Blackwellised form
    (``ledoit_wolf``; both Chen et al., 2010), which needs no fourth moments. Both assume normal rows.
    """
    if not isinstance(shrinkage, str):
        return float(shrinkage)
    p = len(triangle)
    trace, diagonal = float(np.trace(triangle)), np.diag(triangle)
    below_diagonal = (triangle[j + 1 :, j] for j in range(p))
    trace_of_square = float(2 * sum(column @ column for column in below_diagonal) + diagonal @ diagonal)
    spread = trace_of_square - trace**2 / p
    if shrinkage == "oas":
        above, below = (1 - 2 / p) * trace_of_square + trace**2, (n + 1 - 2 / p) * spread
    else:  # ledoit_wolf
        above, below = (n - 2) / max(n, 1) * trace_of_square + trace**2, (n + 2) * spread
    return float(np.clip(above / below, 0, 1)) if below > 0 else 1.0


def add_product(
    into: npt.NDArray[np.float64], rows: Matrix, weights: Matrix | None = None, *, take_away: bool = False
) -> None:
    """Add Σ ω r rᵀ of ``rows`` (n, D) with ``weights`` (n,) to the lower triangle of ``into`` (D, D), in panels.

    The rows' type decides the arithmetic. float32 rows: the products and the sums of one block of rows are float32,
    blocks are summed in float64 (docs/method.md, "Numerics"). float64 rows: all of it is float64; a product of two
    numbers that were float32 is then exact, and any batching gives the same numbers to 1e-15, at twice the time.

    ``into`` may be of any order; its upper triangle is left undefined next to the diagonal, and untouched otherwise.
    With ``take_away`` the sum is subtracted.
    """
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        if weights is not None:
            root = np.sqrt(weights[start : start + ROWS]).astype(block.dtype)
            block = root[:, None] * block
        for left in range(0, len(into), COLUMNS):
            own, below = slice(left, left + COLUMNS), slice(left + COLUMNS, None)
            columns = block[:, own]
            for part, added in (
                (into[own, own], columns.T @ columns),  # NumPy computes half of this and mirrors it
                (into[below, own].T, columns.T @ block[:, below]),
            ):
                np.subtract(part, added, out=part) if take_away else np.add(part, added, out=part)


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

    total = 1.0  # the scatter is not divided

    def trace(self) -> float:
        """Return the trace of the scatter."""
        return self.squares

    def has_room(self, rows: int) -> bool:
        """Return whether this form is still the cheaper one with so many more rows."""
        return bool(len(self) + rows <= ROWS_PER_FEATURE * self.D)

    def grown(self, rows: Matrix64) -> "RowScatter | None":
        """Return the scatter with the rows (k, D) too; None where the ridge is too small for this form."""
        squares = self.squares + float(np.einsum("kd,kd->", rows, rows))
        if not squares <= DIGITS * self.ridge:  # nor if it is not finite
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
        assert ridge == self.ridge  # noqa: S101
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


Scatter = DenseScatter | RowScatter  # Σω(δ − μ)(δ − μ)ᵀ, (D, D)


def dense(scatter: Scatter) -> DenseScatter:
    """Return ``scatter`` itself if it is a D×D matrix; what is to be pooled, shrunk or projected on must be one."""
    if not isinstance(scatter, DenseScatter):
        raise ParamsError("source_covariance: needs a D×D scatter; set it to false for these statistics")
    return scatter
