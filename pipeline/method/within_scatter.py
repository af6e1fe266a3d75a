"""Sum a within-class scatter Σ ω r rᵀ and solve linear systems with it, in two forms.

`DenseScatter` is a triangle. `RowScatter` is the dual form for fewer rows than features: with the rows R (m, D) of
S = RᵀR,

    (S + κI)⁻¹ B = (B − Rᵀ (RRᵀ + κI)⁻¹ R B) / κ                              (Woodbury)

needs an m×m factor instead of a D×D one. Later rows border the Gram matrix, so its Cholesky factor grows and nothing is
factored twice: all tasks together cost one factorisation of the final size. The factor is kept in the blocks by which
it grew. Growing therefore copies nothing, and almost all of the arithmetic is plain products:

    L = ⎡ L₁            ⎤
        ⎢ S₂ᵀ    L₂     ⎥      Sᵢ = L₁…ᵢ₋₁⁻¹ R₁…ᵢ₋₁ Rᵢᵀ,   Lᵢ Lᵢᵀ = RᵢRᵢᵀ + κI − SᵢᵀSᵢ
        ⎣ S₃ᵀ ……     L₃ ⎦

The difference above loses as many digits as λ_max(S)/κ has; beyond `DIGITS`, `RowScatter.grown` returns None.
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
DIGITS = 1e9  # loss out of float64's 1e16: the solution then agrees with the D×D one to about 1e-7
ROWS_PER_FEATURE = 1.25  # above it D×D takes fewer multiplications, for five equal tasks
COLUMNS = 320  # columns of the triangle added at a time: as fast as one product, without a second D×D matrix
ROWS = 4096  # rows per block: bounds the memory and the length of float32 sums, which are added in float64


@dataclass(eq=False)
class DenseScatter:
    """A scatter as a lower triangle, solved by Cholesky."""

    triangle: Matrix64  # (D, D) lower triangle, Fortran order
    total: float  # Σω; the scatter divided by it is a covariance
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
        """Return (S + ridge·I)⁻¹·right, (D, C); the ridge is added to the triangle in place."""
        self.triangle[np.diag_indices_from(self.triangle)] += ridge
        return cholesky.solve(self.triangle, right)


def shrinkage_intensity(triangle: Matrix64, shrinkage: float | str, n: float) -> float:
    """Return ρ in [0, 1] of the shrinkage (1 − ρ) A + ρ (tr A / D) I of a triangle A (D, D) from about n rows.

    ``shrinkage`` is ρ itself, ``oas`` for the oracle approximating estimate, or ``ledoit_wolf`` for Ledoit and Wolf's
    in its Rao-Blackwellised form, which needs no fourth moments (both Chen et al., 2010). Both assume normal rows.
    """
    if not isinstance(shrinkage, str):
        return float(shrinkage)
    p = len(triangle)
    trace, diagonal = float(np.trace(triangle)), np.diag(triangle)
    below_diagonal = (triangle[j + 1 :, j] for j in range(p))
    trace_of_square = float(2 * sum(column @ column for column in below_diagonal) + diagonal @ diagonal)
    spread = trace_of_square - trace**2 / p
    if shrinkage == "oas":
        numerator, denominator = (1 - 2 / p) * trace_of_square + trace**2, (n + 1 - 2 / p) * spread
    else:  # ledoit_wolf
        numerator, denominator = (n - 2) / max(n, 1) * trace_of_square + trace**2, (n + 2) * spread
    return float(np.clip(numerator / denominator, 0, 1)) if denominator > 0 else 1.0


def add_product(
    triangle: npt.NDArray[np.float64], rows: Matrix, weights: Matrix | None = None, *, subtract: bool = False
) -> None:
    """Add Σ ω r rᵀ of ``rows`` (n, D) with ``weights`` (n,) to a lower ``triangle`` (D, D), or subtract it, in panels.

    The dtype of the rows decides the arithmetic. float32: products and sums within a block of rows are float32, and
    blocks are summed in float64 (docs/method.md, "Numerics"). float64: everything is float64. A product of two numbers
    that were float32 is then exact, and any batching gives the same numbers to 1e-15, in twice the time.

    ``triangle`` may have any memory order. Its upper half becomes undefined near the diagonal, and is otherwise
    unchanged.
    """
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        if weights is not None:
            root = np.sqrt(weights[start : start + ROWS]).astype(block.dtype)
            block = root[:, None] * block
        for left in range(0, len(triangle), COLUMNS):
            panel, below = slice(left, left + COLUMNS), slice(left + COLUMNS, None)
            columns = block[:, panel]
            for part, product in (
                (triangle[panel, panel], columns.T @ columns),  # NumPy computes half of this and mirrors it
                (triangle[below, panel].T, columns.T @ block[:, below]),
            ):
                np.subtract(part, product, out=part) if subtract else np.add(part, product, out=part)


@dataclass(frozen=True, eq=False)
class Border:
    """The border that a piece of rows added to the factor."""

    rows: Matrix64  # (k, D) Rᵢ
    sides: tuple[Matrix64, ...]  # (k', k) Sᵢ, split by the earlier pieces
    corner: Factor  # Lᵢ (k, k)


@dataclass(frozen=True, eq=False)
class RowScatter:
    """The scatter RᵀR of rows with the Cholesky factor of RRᵀ + κI, which is never divided or shrunk."""

    D: int
    borders: tuple[Border, ...]  # in the order of growth
    ridge: float  # κ
    squares: float = 0.0  # tr RRᵀ

    def __len__(self) -> int:
        return sum(len(border.rows) for border in self.borders)

    total = 1.0  # the scatter is not divided

    def trace(self) -> float:
        """Return the trace of the scatter."""
        return self.squares

    def has_room(self, rows: int) -> bool:
        """Return whether this form is still the cheaper one after adding a number of rows."""
        return bool(len(self) + rows <= ROWS_PER_FEATURE * self.D)

    def grown(self, rows: Matrix64) -> "RowScatter | None":
        """Return the scatter with rows (k, D) added, or None if the ridge is too small for this form."""
        squares = self.squares + float(np.einsum("kd,kd->", rows, rows))
        if not squares <= DIGITS * self.ridge:  # also true if it is not finite
            return None
        if not len(rows):
            return self
        rows = np.ascontiguousarray(rows)
        sides = self._forward(rows.T)
        corner = rows @ rows.T
        corner[np.diag_indices_from(corner)] += self.ridge
        for side in sides:
            corner -= side.T @ side
        try:
            border = Border(rows, tuple(sides), factor(corner))
        except InputError:
            return None
        return RowScatter(self.D, (*self.borders, border), self.ridge, squares)

    def solve(self, right: Matrix64, ridge: float) -> Matrix64:
        """Return (S + ridge·I)⁻¹·right, (D, C), for the ridge of the factor."""
        assert ridge == self.ridge  # noqa: S101
        solved = np.array(right, order="C")
        halves = self._forward(right)
        for i in reversed(range(len(self.borders))):  # L⁻ᵀ, from the last block to the first
            border = self.borders[i]
            inner = border.corner.backward(halves[i])
            for j, side in enumerate(border.sides):
                halves[j] -= side @ inner
            solved -= border.rows.T @ inner
        solved /= self.ridge
        return solved

    def _forward(self, right: Matrix64) -> list[Matrix64]:
        """Return L⁻¹R·right as blocks (k, C), one per border."""
        halves = list[Matrix64]()
        for border in self.borders:
            half = border.rows @ right
            for side, earlier in zip(border.sides, halves, strict=True):
                half -= side.T @ earlier
            halves.append(border.corner.forward(half))
        return halves

    def dense(self) -> Matrix64:
        """Return the lower triangle of S, (D, D)."""
        scatter = np.zeros((self.D, self.D), order="F")
        for border in self.borders:
            add_product(scatter, border.rows)
        return scatter


Scatter = DenseScatter | RowScatter  # Σω(δ − μ)(δ − μ)ᵀ, (D, D)


def dense(scatter: Scatter) -> DenseScatter:
    """Return ``scatter``; raise ParamsError unless it is a D×D matrix, as pooling, shrinking and projecting require."""
    if not isinstance(scatter, DenseScatter):
        raise ParamsError("source_covariance: needs a D×D scatter; set it to false for these statistics")
    return scatter
