"""Σ ω r rᵀ of many rows, the arithmetic that everything else waits for: one triangle by BLAS's syrk.

The rows' type decides the arithmetic. float32 rows: the products and the sums of one block of rows are float32, blocks
are summed in float64 (docs/method.md, "Numerics"). float64 rows: all of it is float64; a product of
two numbers that were float32 is then exact, and any batching gives the same numbers to 1e-15, at twice the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from pipeline.method.rows import Matrix

COLUMNS = 512  # of the triangle that are added at a time: what stands above the diagonal is skipped
ROWS = 4096  # of a block: bounds the memory; what is summed in float32 before float64 takes over


def add_product(
    into: npt.NDArray[np.float64],
    rows: Matrix,
    weights: Matrix | None = None,
    *,
    take_away: bool = False,
) -> None:
    """Add Σ ω r rᵀ of ``rows`` (n, D) with ``weights`` (n,) to the lower triangle of ``into`` (D, D) float64.

    ``into`` may be of any order; its upper triangle is left undefined next to the diagonal, and untouched otherwise.
    take_away: subtract it instead.
    """
    direct = rows.dtype == np.float64 and into.flags.f_contiguous
    # one for all blocks: memory that is new costs as much again as the sums that pass through it
    products = into if direct else np.zeros(into.shape, rows.dtype, order="F")
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        if weights is not None:
            root = np.sqrt(weights[start : start + ROWS]).astype(block.dtype)
            block = root[:, None] * block
        syrk = blas.dsyrk if block.dtype == np.float64 else blas.ssyrk
        syrk(
            -1.0 if take_away else 1.0,
            np.ascontiguousarray(block).T,
            beta=1.0 if direct else 0.0,
            c=products,
            lower=1,
            overwrite_c=1,
        )
        if not direct:
            _add_triangle(into, products)


def _add_triangle(into: npt.NDArray[np.float64], triangle: Matrix) -> None:
    for left in range(0, len(into), COLUMNS):
        block = into[left:, left : left + COLUMNS]
        np.add(block, triangle[left:, left : left + COLUMNS], out=block)
