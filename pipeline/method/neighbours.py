"""Smoothing of a task's probabilities over nearest neighbours: what looks alike is taken for the same class.

    p̂_i ← ½ p̂_i + ½ Σ_j M_ij p̂_j

M (n, n) has 1/k at the k nearest others of each image, by the cosine of the vision model's embeddings of the original
view. Neighbours are images of the same task. They depend on no label and no classifier: they are found once per task.
k is at most half the mean size of a class, n // 2c, so that an image of a small task is not outvoted by other classes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import BLOCK_IMAGES, Matrix64, Rows, row_blocks, unit_rows

AT_ONCE = 2**22  # cosines in memory, 16 MB, and their order, 32: a task may have 100,000 images


def nearest_neighbours(rows: Rows, k: int) -> npt.NDArray[np.intp]:
    """Return the row numbers (n, k) of the nearest others of embeddings (n, d); of all others if they are fewer.

    An image without others is its own neighbour.

    Examples
    --------
    >>> nearest_neighbours(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1)
    array([[1],
           [0],
           [1]])
    """
    n = len(rows)
    k = min(k, n - 1)
    if k < 1:
        return np.arange(n)[:, None]
    unit = np.concatenate([unit_rows(rows[block]).astype(np.float32) for block in row_blocks(n, BLOCK_IMAGES)])
    nearest = np.empty((n, k), dtype=np.intp)
    for block in row_blocks(n, max(1, min(BLOCK_IMAGES, AT_ONCE // n))):
        cosine = unit[block] @ unit.T
        cosine[np.arange(len(block)), block] = -np.inf  # an image is not its own neighbour
        nearest[block] = np.argpartition(cosine, -k, axis=1)[:, -k:]
    return nearest


def smoothed(p: Matrix64, nearest: npt.NDArray[np.intp]) -> Matrix64:
    """Return half of each row of probabilities (n, c), and half of the mean of its neighbours'."""
    mean, share = np.zeros_like(p), 1 / nearest.shape[1]
    for column in nearest.T:  # a sparse matrix would do as well, and take a tenth of a second to import
        mean += share * p[column]
    return 0.5 * p + 0.5 * mean
