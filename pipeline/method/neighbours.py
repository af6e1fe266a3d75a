"""Smoothing of a task's probabilities over nearest neighbours: what looks alike is taken for the same class.

    p̂_i ← ½ p̂_i + ½ Σ_j M_ij p̂_j

M (n, n) has 1/k at the k nearest others of each image, by the cosine of the vision model's embeddings of the original
view. Neighbours are images of the same task. They depend on no label and no classifier: they are found once per task.
k is at most half the mean size of a class, n // 2c, so that an image of a small task is not outvoted by other classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.method.rows import BLOCK_IMAGES, Matrix64, Rows, row_blocks, unit_rows


def neighbour_average(rows: Rows, k: int) -> Any:
    """Return M (n, n), sparse, of embeddings (n, d) and their ``k`` nearest others; of all others if they are fewer.

    Examples
    --------
    >>> neighbour_average(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """
    import scipy.sparse  # a tenth of a second, which only stages that adapt pay

    n = len(rows)
    k = min(k, n - 1)
    if k < 1:
        return scipy.sparse.identity(n, format="csr")
    blocks = list(row_blocks(n, BLOCK_IMAGES))
    unit = np.concatenate([unit_rows(rows[block]).astype(np.float32) for block in blocks])
    nearest = np.empty((n, k), dtype=np.intp)
    for block in blocks:
        cosine = unit[block] @ unit.T
        cosine[np.arange(len(block)), block] = -np.inf  # an image is not its own neighbour
        nearest[block] = np.argpartition(cosine, -k, axis=1)[:, -k:]
    start = np.arange(0, n * k + 1, k)
    return scipy.sparse.csr_array((np.full(n * k, 1 / k), nearest.ravel(), start), shape=(n, n))


def smoothed(p: Matrix64, average: Any) -> Matrix64:
    """Return half of each row of probabilities (n, c), and half of the mean of its neighbours'."""
    return np.asarray(0.5 * p + 0.5 * (average @ p))
