"""FeCAM (Goswami et al., 2023): a mean and a covariance for each class, Mahalanobis distance to the means.

Features φ are Tukey's square root (λ = 0.5) of the embedding, scaled to length 1, where embeddings are nonnegative (a
ReLU before the pooling); signed ones (a ViT's) have no square root and are only scaled, as the authors do with a ViT.
Which it is, the first source task's rows decide; for all domains and tasks, since the backbone is one.

A class's covariance S is shrunk, S + γ₁V₁I + γ₂V₂(11ᵀ − I) with V₁ its mean variance and V₂ its mean covariance
(γ₁ = γ₂ = 1 after Tukey, γ₂ = 0 for signed features: the authors' settings for each), and normalised to a
correlation matrix R, so that the classes' distances (φ − μ)ᵀR⁻¹(φ − μ) compare. A class of one row has R = I.

A class is final after its task, and its distances depend on no other class: they are measured when the class
arrives and R is dropped. One d×d matrix is alive at a time, not C of them, with the same predictions.

`fecam` is fitted to the source. `fecam-pseudo` to the target's pseudo-labelled rows, weights and all; a class with no
kept row has the source's mean and R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.linalg

from pipeline.comparison.labelled_tasks import LabelledTask, pseudo_labelled_tasks, source_tasks
from pipeline.comparison.problem import ComparedMethod, SeedProblem
from pipeline.method.blas_products import gram
from pipeline.method.class_statistics import Labels, Matrix64, Vector64
from pipeline.method.zero_shot import Matrix, unit_rows

FLOOR = 1e-12  # on variances of unit features: far above rounding, far below any real spread


def are_nonnegative(problem: SeedProblem) -> bool:
    """Return whether Tukey's transform applies: one bit that the source leaves behind."""
    key = "fecam: nonnegative"
    return problem.shared(key, lambda: bool((next(source_tasks(problem)).rows >= 0).all()))


def features(x: Matrix, tukey: bool) -> Matrix64:
    """Return φ, (n, d), of embeddings (n, d); should a negative number stray in, its root is taken as 0."""
    return unit_rows(np.sqrt(np.maximum(x.astype(np.float64), 0)) if tukey else x)


def distances(
    tasks: Iterable[LabelledTask],
    test: Matrix,
    tukey: bool,
    fallback: Callable[[], Sequence[Matrix64]] | None = None,
) -> list[Matrix64]:
    """Return for each task the squared distances (n, |classes|) of test rows (n, d) to its classes.

    fallback: the same of what stands in for classes without a row; asked for only if there are any.
    """
    phi = features(test, tukey)
    measured = []
    for t, task in enumerate(tasks):
        columns = np.full((len(phi), len(task.classes)), np.inf)
        for column, c in enumerate(np.sort(task.classes)):
            members = task.labels == c
            if members.any():
                rows = features(task.rows[members], tukey)
                columns[:, column] = to_class(phi, rows, task.weights[members], tukey)
            elif fallback is not None:
                columns[:, column] = fallback()[t][:, column]
        measured.append(columns)
    return measured


def to_class(phi: Matrix64, rows: Matrix64, weights: Vector64, tukey: bool) -> Vector64:
    """Return the squared distances (n,) of features (n, d) to the class of weighted rows (m, d)."""
    shares = weights / weights.sum()
    mean = shares @ rows
    centred = np.sqrt(shares)[:, None] * (rows - mean)
    R = correlation(gram(centred), 1.0 if tukey else 0.0)
    factor = scipy.linalg.cholesky(R, lower=True)
    whitened = scipy.linalg.solve_triangular(factor, (phi - mean).T, lower=True)
    return np.asarray(np.einsum("dn,dn->n", whitened, whitened))


def correlation(covariance: Matrix64, off_diagonal: float) -> Matrix64:
    """Return R, (d, d), of a covariance, shrunk with γ₁ = 1 and γ₂ = ``off_diagonal``."""
    d = len(covariance)
    trace = float(np.trace(covariance))
    mean_covariance = (float(covariance.sum()) - trace) / max(d * (d - 1), 1)
    shrunk = covariance + off_diagonal * mean_covariance
    np.fill_diagonal(shrunk, np.diag(covariance) + trace / d + FLOOR)
    deviation = np.sqrt(np.diag(shrunk))
    shrunk /= deviation[:, None]
    shrunk /= deviation
    return shrunk


def of_source(problem: SeedProblem) -> list[Matrix64]:
    """Return each task's distances to the source's classes."""
    test, tukey = problem.test.views["original"], are_nonnegative(problem)
    key = "fecam: source"
    return problem.shared(key, lambda: distances(source_tasks(problem), test, tukey))


def of_pseudo_labels(problem: SeedProblem) -> list[Matrix64]:
    """Return each task's distances to the target's classes, the source's where no row was kept."""
    test, tukey = problem.test.views["original"], are_nonnegative(problem)
    return distances(pseudo_labelled_tasks(problem), test, tukey, lambda: of_source(problem))


def _predict(measured: Sequence[Matrix64]) -> list[Labels]:
    return [np.hstack(measured[: t + 1]).argmin(axis=1) for t in range(len(measured))]


METHODS = {
    "fecam": ComparedMethod(lambda problem: _predict(of_source(problem)), "FeCAM", "peer"),
    "fecam-pseudo": ComparedMethod(
        lambda problem: _predict(of_pseudo_labels(problem)), "FeCAM, pseudo-labels", "peer"
    ),
}
