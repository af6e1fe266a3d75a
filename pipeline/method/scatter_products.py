"""Σ ω r rᵀ of many rows, the arithmetic that everything else waits for: one triangle, in panels.

The rows' type decides the arithmetic. float32 rows: the products and the sums of one block of rows are float32, blocks
are summed in float64 (docs/method.md, "Numerics"). float64 rows: all of it is float64; a product of
two numbers that were float32 is then exact, and any batching gives the same numbers to 1e-15, at twice the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix

COLUMNS = 320  # of the triangle that are added at a time: as fast as one product, without a second D×D matrix
ROWS = 4096  # of a block: bounds the memory; what is summed in float32 before float64 takes over


def add_product(
    into: npt.NDArray[np.float64], rows: Matrix, weights: Matrix | None = None, *, take_away: bool = False
) -> None:
    """Add Σ ω r rᵀ of ``rows`` (n, D) with ``weights`` (n,) to the lower triangle of ``into`` (D, D) float64.

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
