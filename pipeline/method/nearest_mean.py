"""Nearest class mean on unit embeddings: the plainest classifier of frozen features, a reference row of every table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.method.blas_products import product
from pipeline.method.zero_shot import Matrix, unit_rows


def class_means(
    x: Matrix, labels: npt.NDArray[np.integer], classes: int
) -> npt.NDArray[np.float64]:
    """Return the means (C, d) of the unit rows of ``x`` (n, d) per class; NaN for a class with no rows."""
    rows = unit_rows(x)
    sums = np.zeros((classes, rows.shape[1]))
    np.add.at(sums, labels, rows)
    counts = np.bincount(labels, minlength=classes).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts[:, None])


def nearest_mean(x: Matrix, means: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return for each row of ``x`` (n, d) the class (n,) whose mean is nearest in Euclidean distance."""
    # ‖z − μ‖² = ‖z‖² − 2 z·μ + ‖μ‖², and ‖z‖² is the same for every class
    scores = product(unit_rows(x), np.nan_to_num(means).T) - 0.5 * np.einsum(
        "cd,cd->c", means, means
    )
    return np.asarray(np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1))
