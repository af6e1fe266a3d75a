"""FeCAM (Goswami et al., NeurIPS 2023): a mean and a covariance for each class, Mahalanobis distance to the means.

The authors have one program for backbones that end in a ReLU and one for vision transformers. The signs of the first
source task's embeddings decide which of them applies to all domains and tasks:

- Nonnegative embeddings: rows pass Tukey's transform, a square root (λ = 0.5). The covariance of the transformed rows,
  which are not normalised, is shrunk twice, with γ₁ = γ₂ = 1. The mean is transformed after averaging:
  normalize(sqrt(mean(x))). Distances are measured from normalize(sqrt(x)).
- Signed embeddings (a ViT's), which have no square root: rows are scaled to length 1. Their covariance is shrunk once,
  with γ₁ = 1, γ₂ = 0, and distances are measured from these rows to their mean.

Shrinking adds γ₁V₁ to the variances and γ₂V₂ to the covariances, where V₁ is the mean variance and V₂ the mean of the
nonzero covariances. The result is normalised to a correlation matrix R, which makes the classes' distances
(φ − μ)ᵀR⁻¹(φ − μ) comparable.

Deviations from the authors: Rows may have weights. A class of one row, whose covariance is undefined, has R = I. The
first task is classified like the others, not by a trained layer.

A class is final after its task and its distances depend on no other class. They are therefore computed when the class
arrives, and R is dropped, so that only one d×d matrix is in memory at a time.

`fecam` is fitted to the source, `fecam-pseudo` to the target's weighted pseudo-labelled rows. A class with no kept row
has the source's mean and R.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.comparison.labelled_tasks import Fallback, TaskRows, peer_methods, source_tasks, target_test_rows
from pipeline.errors import InputError
from pipeline.method.cholesky import factor
from pipeline.method.rows import Labels, Matrix, Matrix64, Vector64, unit_rows
from pipeline.problem.seed import Seed

FLOOR = 1e-12  # added to variances of rows of length about 1: far above rounding, far below any real spread


def are_nonnegative(seed: Seed) -> bool:
    """Return whether Tukey's transform applies."""
    key = "fecam: nonnegative"
    return seed.shared(key, lambda: bool((next(source_tasks(seed)).rows >= 0).all()))


def fit(seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Matrix64] | None) -> list[Matrix64]:
    """Return for each task the squared distances (n, C_t) of the test rows to its classes."""
    tukey = are_nonnegative(seed)
    phi = features(target_test_rows(seed), tukey)
    distances = []
    for t, task in enumerate(tasks):
        columns = np.full((len(phi), len(task.classes)), np.inf)
        for column, c in enumerate(task.classes):
            index = task.labels == c
            if index.any():
                mean, R = class_gaussian(task.rows[index], task.weights[index], tukey)
                columns[:, column] = _squared_distances(phi - mean, R)
            elif fallback is not None:
                columns[:, column] = fallback()[t][:, column]
        distances.append(columns)
    return distances


def features(x: Matrix, tukey: bool) -> Matrix64:
    """Return the unit rows φ (n, d) from which distances are measured."""
    return unit_rows(_transformed(x) if tukey else x)


def _transformed(x: Matrix) -> Matrix64:
    """Return Tukey's transform of embeddings; negative numbers count as 0."""
    return np.asarray(np.sqrt(np.maximum(x, 0, dtype=np.float64)))


def class_gaussian(x: Matrix, weights: Vector64, tukey: bool) -> tuple[Vector64, Matrix64]:
    """Return the mean (d,) and the correlation matrix R (d, d) of a class's embeddings (n, d) and weights (n,)."""
    shares = weights / weights.sum()
    if not tukey:
        rows = unit_rows(x)
        return shares @ rows, correlation(shrunk(_covariance(rows, shares), off_diagonal=0.0))
    rows = _transformed(x)
    rows /= np.linalg.norm(shares @ rows) or 1.0  # R does not depend on the scale, FLOOR does
    covariance = shrunk(shrunk(_covariance(rows, shares), off_diagonal=1.0), off_diagonal=1.0)
    mean = features((shares @ x.astype(np.float64))[None], tukey)[0]
    return mean, correlation(covariance)


def _covariance(rows: Matrix64, shares: Vector64) -> Matrix64:
    centred = np.sqrt(shares)[:, None] * (rows - shares @ rows)
    return np.asarray(centred.T @ centred)


def shrunk(covariance: Matrix64, off_diagonal: float) -> Matrix64:
    """Return a covariance (d, d) shrunk with γ₁ = 1 and γ₂ = ``off_diagonal``."""
    variances = np.diag(covariance)
    covariances = covariance - np.diag(variances)
    result = covariance + off_diagonal * covariances.sum() / max(np.count_nonzero(covariances), 1)
    np.fill_diagonal(result, variances + variances.mean() + FLOOR)
    return np.asarray(result)


def correlation(covariance: Matrix64) -> Matrix64:
    """Return the correlation matrix of a covariance (d, d)."""
    deviation = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / deviation[:, None] / deviation)


def _squared_distances(gaps: Matrix64, R: Matrix64) -> Vector64:
    """Return gᵀR⁻¹g for each row g of gaps (n, d)."""
    try:
        whitened = factor(R).forward(gaps.T)
    except InputError:  # if many features of a class are constantly zero, V₂ may exceed V₁
        return np.asarray(np.einsum("nd,nd->n", gaps @ np.linalg.pinv(R, hermitian=True), gaps))
    return np.asarray(np.einsum("dn,dn->n", whitened, whitened))


def predict(seed: Seed, distances: Sequence[Matrix64]) -> list[Labels]:  # noqa: ARG001
    """Return the class (n,) of each test row after each task."""
    return [np.hstack(distances[: t + 1]).argmin(axis=1) for t in range(len(distances))]


METHODS = peer_methods("fecam", "FeCAM", fit, predict)
