"""LoRanPAC, also called TSVD (Peng et al., ICLR 2025): RanPAC's regression on a truncated SVD of the features so far.

Let h(x) = max(Pᵀx, 0), let H be the features of all rows so far, and U, σ the leading singular vectors and values of
Hᵀ. Scores are h(x)ᵀ U σ⁻² Uᵀ Q with Q = Σ h yᵀ. Dropping the small singular values replaces the ridge. After each task
the smallest quarter is dropped: for n rows so far round(¾ n) are kept, at most ¾ of the number of features. The next
task's SVD is that of [Uσ, H_t]. These are the authors' constants.

B = (Uσ)ᵀ and Q are kept. If there are fewer rows than features, the next B follows from the eigenvectors of
[B; H_t][B; H_t]ᵀ.

Deviations from the authors: There are 10,000 projections, those of `ranpac-10000`, instead of 100,000, as the title
says. Rows are scaled to length 1 and may have weights, √ω h. Singular values below a millionth of the largest count as
zero. There is one update per task (theirs: also after every 10,000 rows). There is no fine-tuning in the first task,
which needs gradients.

`loranpac` is fitted to the source, `loranpac-pseudo` to the target's weighted pseudo-labelled rows. A class with no
kept row is replaced by one row at the source's mean with the total weight of the source rows.
"""

from collections.abc import Iterable

import numpy as np

from pipeline.comparison.labelled_tasks import Fallback, TaskRows, peer_methods
from pipeline.comparison.methods.ranpac import RANPAC_10000, Regression, random_features
from pipeline.method.rows import Matrix64, Vector64
from pipeline.problem.seed import Seed

KEPT = 0.75  # share of the singular values; the authors truncate 25 percent
SMALLEST = 1e-12  # bound below which σ² counts as zero, as a share of the largest


def fit(seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Regression] | None) -> list[Regression]:
    """Return the regression after each task; its ridge is 0."""
    P = RANPAC_10000.projection(seed)
    M = P.shape[1]
    B, Q, n = np.zeros((0, M)), np.zeros((M, 0)), 0
    regressions = []
    for t, task in enumerate(tasks):
        h, labels, weights = random_features(task.rows, P), task.labels, task.weights
        absent = np.setdiff1d(task.classes, labels)
        if len(absent) and fallback is not None:
            source = fallback()[t]
            h = np.vstack([h, source.means[absent]])
            labels = np.concatenate([labels, absent])
            weights = np.concatenate([weights, source.weight[absent]])
        n += len(h)
        rows = np.vstack([B, np.sqrt(weights)[:, None] * h])
        B, squares = truncated(rows, min(round(n * KEPT), round(M * KEPT)))
        one_hot = weights[:, None] * np.eye(task.classes_seen)[labels]
        sums, weight = h.T @ one_hot, one_hot.sum(axis=0)
        Q = np.pad(Q, ((0, 0), (0, task.classes_seen - Q.shape[1]))) + sums
        # U = Bᵀσ⁻¹, so U σ⁻² Uᵀ Q = Bᵀ σ⁻⁴ B Q
        W = B.T @ ((B @ Q) / squares[:, None] ** 2)
        regressions.append(Regression(W, 0.0, weight, sums.T / np.where(weight > 0, weight, np.nan)[:, None]))
    return regressions


def truncated(rows: Matrix64, rank: int) -> tuple[Matrix64, Vector64]:
    """Return (Uσ)ᵀ (r, M) and σ² (r,) of rows (n, M) for the ``rank`` largest singular values that are not zero."""
    n, M = rows.shape
    squares, V = np.linalg.eigh(rows @ rows.T if n <= M else rows.T @ rows)
    last = min(rank, int(np.sum(squares > SMALLEST * squares.max(initial=0))))
    kept = slice(len(squares) - last, None)
    scaled = V[:, kept].T @ rows if n <= M else (V[:, kept] * np.sqrt(squares[kept])).T
    return scaled, squares[kept]


METHODS = peer_methods("loranpac", f"LoRanPAC ({RANPAC_10000.projections:,} projections)", fit, RANPAC_10000.predict)
