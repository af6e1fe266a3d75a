"""Σ ω r rᵀ of many rows, the arithmetic that everything else waits for: one triangle, in panels of columns.

The rows' type decides the arithmetic. float32 rows: the products and the sums of one block of rows are float32, blocks
are summed in float64 (METHOD.md, "float32 products, float64 sums"). float64 rows: all of it is float64; a product of
two numbers that were float32 is then exact, and any batching gives the same numbers to 1e-15, at twice the time.

NumPy hands XᵀX of one array to BLAS's syrk, which computes one triangle; panels do the same for the part between the
diagonal blocks, so that half the arithmetic of a full product is done whatever D.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.method.zero_shot import Matrix

PANEL = 2048  # columns: a product of two panels is 16 MB of float32, which is added while it is in the cache
ROWS = (
    2048  # rows of a block: bounds the memory; what is summed in float32 before float64 takes over
)


def add_product(
    into: npt.NDArray[np.float64],
    rows: Matrix,
    weights: Matrix | None = None,
    *,
    take_away: bool = False,
) -> None:
    """Add Σ ω r rᵀ of ``rows`` (n, D) with ``weights`` (n,) to the lower triangle of ``into`` (D, D) float64.

    ``into`` may be of any order; its upper triangle is left undefined next to the diagonal, and untouched elsewhere.
    take_away: subtract it instead.
    """
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        if weights is not None:
            root = np.sqrt(weights[start : start + ROWS]).astype(block.dtype)
            block = root[:, None] * block
        _add_block(into, block, np.subtract if take_away else np.add)


def _add_block(into: npt.NDArray[np.float64], block: Matrix, operation: np.ufunc) -> None:
    D = block.shape[1]
    for left in range(0, D, PANEL):
        columns = block[:, left : left + PANEL]
        for top in range(left, D, PANEL):
            # (columns of `left`)ᵀ(columns of `top`) is the transposed block, in C order: its transpose is in
            # Fortran order, as LAPACK wants `into`, so that both are walked through in the order of memory
            product = columns.T @ block[:, top : top + PANEL]
            place = into[top : top + PANEL, left : left + PANEL]
            operation(place, product.T, out=place)
