"""Naive oracle of LoRanPAC: the truncated SVD of [Uσ, Hᵀ] after each task, and U σ⁻² Uᵀ HY."""

import numpy as np

from reference.ranpac import lift, lifted_rows


def fit(tasks, projection, source_tasks):
    """Return W (M, K) after each of ``tasks``, each (classes, rows, labels, weights)."""
    M = projection.shape[1]
    K = sum(len(classes) for classes, *_ in tasks)
    kept = np.zeros((M, 0))  # Uσ
    Q = np.zeros((M, K))
    n, seen, solutions = 0, 0, []
    for task in tasks:
        columns = []
        for row, c, w in zip(*lifted_rows([task], source_tasks, lambda row: lift(row, projection)), strict=True):
            columns.append(np.sqrt(w) * row)
            Q[:, c] += w * row
        n, seen = n + len(columns), seen + len(task[0])
        U, s, _ = np.linalg.svd(np.column_stack([kept, *columns]), full_matrices=False)
        rank = min(round(0.75 * n), round(0.75 * M))
        U, s = U[:, :rank], s[:rank]
        kept = U * s
        solutions.append(U @ np.diag(1 / s**2) @ U.T @ Q[:, :seen])
    return solutions
