"""Products by NumPy under names that some modules use; new code writes ``@``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.class_statistics import class_selection
from pipeline.method.rows import Matrix

Array = npt.NDArray[Any]
__all__ = ["class_selection", "gram", "product", "subtract_product"]


def product(a: Matrix, b: Matrix) -> Array:
    """Return a·b."""
    return np.asarray(a @ b)


def subtract_product(into: Array, a: Matrix, b: Matrix) -> None:
    """Take a·b (n, m) away from ``into``."""
    into -= a @ b


def gram(a: Matrix) -> Array:
    """Return aᵀa."""
    return np.asarray(a.T @ a)
