"""Nearest class mean on unit embeddings: the plainest classifier of frozen features, a reference row of every table."""

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix, Matrix64, Rows, row_blocks, unit_rows


def class_means(rows: Rows, labels: Labels, classes: int) -> Matrix64:
    """Return the class means (C, d) of unit rows (n, d), read in blocks; NaN for a class without rows.

    Examples
    --------
    >>> class_means(np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 0]), 1)
    array([[0.5, 0.5]])
    """
    sums, counts = np.zeros((classes, rows.shape[1])), np.bincount(labels, minlength=classes)
    for block in row_blocks(len(rows), BLOCK_IMAGES):
        sums += np.eye(classes)[labels[block]].T @ unit_rows(rows[block])
    return np.asarray(sums / np.where(counts > 0, counts, np.nan)[:, None])


def nearest_mean(x: Matrix, means: Matrix64) -> npt.NDArray[np.intp]:
    """Return for each row of ``x`` (n, d) the class (n,) whose mean is nearest in Euclidean distance."""
    # ‖z − μ‖² = ‖z‖² − 2 z·μ + ‖μ‖², and ‖z‖² is the same for every class
    scores = unit_rows(x) @ np.nan_to_num(means).T - 0.5 * np.einsum("cd,cd->c", means, means)
    return np.asarray(np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1))
