"""Matrix products by the BLAS that SciPy brings, which also factors and solves: one pool of threads for everything.

NumPy and SciPy ship a BLAS each, and each keeps threads of its own that spin for a while after their work is done.
Where a product by NumPy is followed by a factorisation by SciPy, the two pools hold each other's cores: a syrk and a
Cholesky factor at D = 2000 on two cores took 91 ms that way, 52 ms with both in one pool, 85 ms on one thread.
Everything large in the method goes through here or through `scipy.linalg`; NumPy's own ``@`` is for small things.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from pipeline.method.rows import Labels, Matrix

Array = npt.NDArray[Any]


def product(a: Matrix, b: Matrix) -> Array:
    """Return a·b, (n, m) in C order, of a (n, k) and b (k, m): of float32 if both are, otherwise of float64."""
    if not (a.size and b.size):  # BLAS refuses what has no numbers
        return np.zeros((a.shape[0], b.shape[1]), np.result_type(a, b))
    single = a.dtype == np.float32 and b.dtype == np.float32
    gemm = blas.sgemm if single else blas.dgemm
    # BLAS thinks in columns: bᵀaᵀ = (a·b)ᵀ in Fortran order is a·b in C order, and no operand is copied
    left, left_turned = _by_columns(b)
    right, right_turned = _by_columns(a)
    return np.asarray(gemm(1.0, left, right, trans_a=left_turned, trans_b=right_turned)).T


def subtract_product(into: Array, a: Matrix, b: Matrix) -> None:
    """Take a·b (n, m) away from ``into``, all float64; ``into`` in C order."""
    if not (a.size and b.size):
        return
    left, left_turned = _by_columns(b)
    right, right_turned = _by_columns(a)
    blas.dgemm(
        -1.0, left, right, beta=1.0, c=into.T, trans_a=left_turned, trans_b=right_turned, overwrite_c=1
    )  # fmt: skip


def class_selection(labels: Labels, weights: Matrix, C: int) -> Array:
    """Return S (C, n) with the weight of each row in the line of its class: S·rows are the classes' weighted sums."""
    selection = np.zeros((C, len(labels)), dtype=weights.dtype)
    selection[labels, np.arange(len(labels))] = weights
    return selection


def gram(a: Matrix) -> Array:
    """Return aᵀa, (m, m), of a (k, m) float64: one triangle computed, both filled."""
    columns, turned = _by_columns(a)
    upper = blas.dsyrk(1.0, columns, trans=turned)
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)


def _by_columns(a: Matrix) -> tuple[Array, int]:
    """Return aᵀ as BLAS takes it without a copy: a Fortran-ordered array, and whether it is still to be turned."""
    return (a, 1) if a.flags.f_contiguous else (np.ascontiguousarray(a).T, 0)
