"""Which of the candidate classes a task holds, where nobody says: shares of the classes by EM, small ones left out.

Given p̂ (n, c) of a task's images over the candidates, the shares π of the classes are the fixed point of

    r_ic = π_c p̂_ic / Σ_j π_j p̂_ij          π_c = mean_i r_ic

(Saerens, Latinne and Decaestecker 2002, with equal shares where p̂ comes from). The class of the least share is left
out while that share is below `LEAST` of an equal one. The rest are the task's classes, as if they had been given: one
that is left out draws no rows to itself and keeps the source's statistics.
"""

from __future__ import annotations

import numpy as np

from pipeline.method.rows import Index, Matrix64

# On Office-Caltech10 none of 40 classes is missed and one is added too many; twice as much misses more on pacs3.
LEAST = 0.1
ITERATIONS = 50


def present_classes(p: Matrix64) -> Index:
    """Return the columns, ascending, of the classes that are there, of probabilities (n, c); all if n is 0.

    Examples
    --------
    >>> present_classes(np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0]]))
    array([0, 1])
    """
    alive = np.arange(p.shape[1])
    while len(p) and len(alive) > 1:
        share = np.full(len(alive), 1 / len(alive))
        for _ in range(ITERATIONS):
            r = share * p[:, alive]
            share = (r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
        if share.min() >= LEAST / len(alive):
            break
        alive = np.delete(alive, share.argmin())
    return alive
