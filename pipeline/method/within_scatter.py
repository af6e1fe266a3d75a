"""A within-class scatter that can be solved with, and Σ ω r rᵀ, the sums that it is made of.

`row_scatter` has another form of scatter with the same `solve`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from pipeline.errors import ParamsError
from pipeline.method import cholesky
from pipeline.method.rows import Matrix, Matrix64

Shrinkage = float | Literal["oas", "ledoit_wolf"] | None
SHRINKAGES = ("oas", "ledoit_wolf")


class Scatter(Protocol):
    """Σω(δ − μ)(δ − μ)ᵀ, (D, D), in some form."""

    @property
    def total(self) -> float:
        """Σω, which divides the scatter into a covariance."""

    def trace(self) -> float:
        """Return the trace of the scatter."""

    def shrink(self, shrinkage: float | str) -> None:
        """Shrink in place, see `shrink`."""

    def solve(self, right: Matrix64, ridge: float) -> Matrix64:
        """Return (S + ridge·I)⁻¹ right, (D, C); the scatter may be used up."""


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
        """Shrink in place, see `shrink`."""
        shrink(self.triangle, shrinkage, self.degrees)

    def solve(self, right: Matrix64, ridge: float) -> Matrix64:
        """Return (S + ridge·I)⁻¹ right, (D, C); the ridge is added to the triangle in place."""
        self.triangle[np.diag_indices_from(self.triangle)] += ridge
        return cholesky.solve(self.triangle, right)


def dense(scatter: Scatter) -> DenseScatter:
    """Return ``scatter`` itself if it is a D×D matrix; what is to be pooled or projected on must be one."""
    if not isinstance(scatter, DenseScatter):
        raise ParamsError("source_covariance: needs a D×D scatter; set it to false for these statistics")
    return scatter


def shrink(triangle: Matrix64, shrinkage: float | str, n: float) -> None:
    """Replace a triangle A (D, D), of about n rows, by (1 − ρ) A + ρ (tr A / D) I, in place.

    ρ is a number; the oracle approximating estimate of it (``oas``); or Ledoit and Wolf's in its Rao-Blackwellised form
    (``ledoit_wolf``; both Chen et al., 2010), which needs no fourth moments. Both assume normal rows.
    """
    rho = shrinkage_intensity(triangle, shrinkage, n)
    target = rho * np.trace(triangle) / len(triangle)
    triangle *= 1 - rho
    triangle[np.diag_indices_from(triangle)] += target


def shrinkage_intensity(triangle: Matrix64, shrinkage: float | str, n: float) -> float:
    """Return ρ in [0, 1], see `shrink`."""
    if not isinstance(shrinkage, str):
        return float(shrinkage)
    p = len(triangle)
    trace = float(np.trace(triangle))
    trace_of_square = _trace_of_square(triangle)
    spread = trace_of_square - trace**2 / p
    if shrinkage == "oas":
        above, below = (1 - 2 / p) * trace_of_square + trace**2, (n + 1 - 2 / p) * spread
    else:  # ledoit_wolf
        above, below = (n - 2) / max(n, 1) * trace_of_square + trace**2, (n + 2) * spread
    return float(np.clip(above / below, 0, 1)) if below > 0 else 1.0


def _trace_of_square(lower: Matrix64) -> float:
    """Return tr(A²) of a symmetric matrix (D, D) from its lower triangle: 2 Σ_{i>j} a² + Σ_i a²."""
    diagonal = np.diag(lower)
    columns = (lower[j + 1 :, j] for j in range(len(lower)))
    return float(2 * sum(column @ column for column in columns) + diagonal @ diagonal)


COLUMNS = 320  # of the triangle that are added at a time: as fast as one product, without a second D×D matrix
ROWS = 4096  # of a block: bounds the memory; what is summed in float32 before float64 takes over


def add_product(
    into: npt.NDArray[np.float64], rows: Matrix, weights: Matrix | None = None, *, take_away: bool = False
) -> None:
    """Add Σ ω r rᵀ of ``rows`` (n, D) with ``weights`` (n,) to the lower triangle of ``into`` (D, D), in panels.

    The rows' type decides the arithmetic. float32 rows: the products and the sums of one block of rows are float32,
    blocks are summed in float64 (docs/method.md, "Numerics"). float64 rows: all of it is float64; a product of two
    numbers that were float32 is then exact, and any batching gives the same numbers to 1e-15, at twice the time.

    ``into`` may be of any order; its upper triangle is left undefined next to the diagonal, and untouched otherwise.
    take_away: subtract it instead.
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
