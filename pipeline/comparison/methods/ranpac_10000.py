"""RanPAC with its authors' 10,000 projections; see `ranpac` for the method and what else departs from them.

G (M, M) of M = 10,000 features takes 0.8 GB and its eigendecomposition minutes. With fewer rows than features the same
numbers follow from the rows' own Gram matrix: with B the rows √ω h and Y their √ω one-hot labels,

    G = BᵀB,  Q = BᵀY,  (G + λI)⁻¹Q = Bᵀ(BBᵀ + λI)⁻¹Y

B is kept as a factor of G, with no more rows than features: beyond that it is replaced by the triangle of its QR
decomposition, which has the same G and Q. No row is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from pipeline.comparison.labelled_tasks import LabelledTask, target_test_rows
from pipeline.comparison.methods.ranpac import RIDGES, held_out, random_features
from pipeline.comparison.peer import Fallback, peer_methods
from pipeline.method.rows import Labels, Matrix64, Vector64
from pipeline.problem.seed import Seed

PROJECTIONS = 10_000  # M, the authors'


@dataclass(frozen=True, eq=False)
class Factor:
    """B (k, M) and Y (k, C), by which G = BᵀB and Q = BᵀY are kept."""

    B: Matrix64
    Y: Matrix64

    def extended(self, rows: Matrix64, targets: Matrix64) -> Factor:
        """Return the factor with further rows √ω h (n, M) and targets √ω y (n, C), C being as before or larger."""
        Y = np.pad(self.Y, ((0, 0), (0, targets.shape[1] - self.Y.shape[1])))
        B, Y = np.vstack([self.B, rows]), np.vstack([Y, targets])
        if len(B) <= B.shape[1]:
            return Factor(B, Y)
        Q, R = scipy.linalg.qr(B, mode="economic", overwrite_a=True, check_finite=False)
        return Factor(R, Q.T @ Y)


@dataclass(frozen=True, eq=False)
class Regression:
    """After a task: W (M, C), the ridge chosen, and Σω (c,) and mean features (c, M) of the task's classes."""

    W: Matrix64
    ridge: float
    weight: Vector64
    means: Matrix64


def projection(seed: Seed) -> Matrix64:
    """Return P (d, M), drawn from the seed's number."""
    size = (seed.basis.d, PROJECTIONS)
    draw = np.random.default_rng(seed.number).standard_normal
    return seed.shared("ranpac-10000: projection", lambda: draw(size))


def fit(
    seed: Seed, tasks: Iterable[LabelledTask], fallback: Fallback[Regression] | None
) -> list[Regression]:
    """Return the regression after each task."""
    P = projection(seed)
    fitted = held = Factor(np.zeros((0, P.shape[1])), np.zeros((0, 0)))
    regressions = []
    for t, task in enumerate(tasks):
        h, targets, weight, means = lifted(task, P, fallback, t)
        out = np.pad(held_out(task.labels), (0, len(h) - len(task.labels)))  # no row of the source
        fitted = fitted.extended(h[~out], targets[~out])
        held = held.extended(h[out], targets[out])
        ridge = chosen_ridge(fitted, held)
        W = solve(fitted.extended(held.B, held.Y), ridge)
        regressions.append(Regression(W, ridge, weight, means))
    return regressions


def lifted(
    task: LabelledTask, P: Matrix64, fallback: Fallback[Regression] | None, t: int
) -> tuple[Matrix64, Matrix64, Vector64, Matrix64]:
    """Return the rows √ω h (n, M) and targets √ω y (n, C) of a task, and Σω (c,) and means (c, M) of its classes.

    A class without a row adds one at the source's mean, of the source's weight.
    """
    h = random_features(task.rows, P)
    one_hot = (task.labels == task.classes[:, None]) * task.weights  # (c, n)
    weight = one_hot.sum(axis=1)
    means = (one_hot @ h) / np.where(weight > 0, weight, 1.0)[:, None]
    labels, weights = task.labels, task.weights
    empty = np.flatnonzero(weight <= 0)
    if len(empty) and fallback is not None:
        source = fallback()[t]
        weight[empty], means[empty] = source.weight[empty], source.means[empty]
        h = np.vstack([h, means[empty]])
        labels = np.concatenate([labels, task.classes[empty]])
        weights = np.concatenate([weights, weight[empty]])
    root = np.sqrt(weights)[:, None]
    return root * h, root * np.eye(task.classes_seen)[labels], weight, means


def chosen_ridge(fitted: Factor, held: Factor) -> float:
    """Return the ridge of least squared error on the held-out rows, the smallest of equals."""
    if len(held.B) == 0:
        return float(RIDGES[-1])
    eigenvalues, V = scipy.linalg.eigh((fitted.B @ fitted.B.T), driver="evd", check_finite=False)
    rotated = V.T @ fitted.Y
    across = (held.B @ fitted.B.T) @ V

    def error(ridge: float) -> float:
        predicted = across @ (rotated / (np.maximum(eigenvalues, 0) + ridge)[:, None])
        return float(np.sum((predicted - held.Y) ** 2))

    return float(min(RIDGES, key=error))


def solve(factor: Factor, ridge: float) -> Matrix64:
    """Return Bᵀ(BBᵀ + λI)⁻¹Y (M, C)."""
    K = factor.B @ factor.B.T
    K[np.diag_indices_from(K)] += ridge
    try:
        inner = scipy.linalg.solve(K, factor.Y, assume_a="pos", check_finite=False)
    except scipy.linalg.LinAlgError:  # a ridge below rounding: LU, as the authors solve it
        inner = np.linalg.solve(K, factor.Y)
    return np.asarray(factor.B.T @ inner)


def predict(seed: Seed, regressions: Sequence[Regression]) -> list[Labels]:
    """Return the class (n,) of each test row after each task."""
    h = random_features(target_test_rows(seed), projection(seed))
    return [(h @ model.W).argmax(axis=1) for model in regressions]


METHODS = peer_methods("ranpac-10000", f"RanPAC ({PROJECTIONS:,} projections)", fit, predict)
