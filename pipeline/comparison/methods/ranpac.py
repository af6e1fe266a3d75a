"""RanPAC (McDonnell et al., 2023): frozen random features, their Gram matrix and class sums, ridge regression.

h(x) = max(Pᵀx, 0) of the unit embedding x, P (d, M) Gaussian and never trained; G = Σωhhᵀ, Q = Σωhyᵀ over one-hot y;
scores h(x)ᵀ(G + λI)⁻¹Q. Sums add, so that neither rows nor tasks have an order.

λ is chosen after each task, among `RIDGES`, by the squared error on every fifth row of each class (a class of fewer
than five has no say), when fitted to the others; then all rows are fitted. Both parts are kept as sums, which give that
error, so the choice looks at all tasks so far and reads no row again. y is the label that the model is fitted to: no
true target label is ever used. Without any held-out row λ is the largest.

Deviations: M = 1500 where the paper has 10,000, for seconds in place of minutes; unit rows, so that one grid serves
every backbone; λ from all tasks so far, where the released code looks at the current one alone; no first-session
fine-tuning, which takes gradients.

`ranpac` is fitted to the source. `ranpac-pseudo` to the target's pseudo-labelled rows, weights and all; a class with no
kept row has the source's sum and count: so many rows at the source's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from pipeline.comparison.labelled_tasks import LabelledTask, pseudo_labelled_tasks, source_tasks
from pipeline.comparison.problem import ComparedMethod, SeedProblem
from pipeline.method import class_statistics
from pipeline.method.blas_products import product
from pipeline.method.class_statistics import ClassStatistics, Labels, Matrix64, Vector64, symmetric
from pipeline.method.zero_shot import Matrix, unit_rows

Mask = npt.NDArray[np.bool_]

M = 1500
RIDGES = 10.0 ** np.arange(-3, 5)
HELD_OUT = 5  # every fifth row of a class
ROWS = 2048  # lifted at a time: bounds the memory, not the result


@dataclass(frozen=True, eq=False)
class Regression:
    """After a task: W (M, K); the ridge chosen; Σω (K,) and means (K, M) of the classes seen."""

    W: Matrix64
    ridge: float
    weight: Vector64
    means: Matrix64


def projection(problem: SeedProblem) -> Matrix64:
    """Return P, (d, M): of the seed alone."""

    def draw() -> Matrix64:
        return np.random.default_rng(problem.seed).standard_normal((problem.basis.d, M))

    return problem.shared("ranpac: projection", draw)


def lifted(x: Matrix, P: Matrix64) -> Matrix64:
    """Return h, (n, M), of embeddings (n, d)."""
    return np.maximum(product(unit_rows(x), P), 0)


def regressions(
    tasks: Iterable[LabelledTask],
    P: Matrix64,
    fallback: Callable[[], Sequence[Regression]] | None = None,
) -> list[Regression]:
    """Return the regression after each task, folding in one after another.

    fallback: what stands in for classes without a row, after each task; asked for only if there are any.
    """
    fitted = held = class_statistics.zeros(0, P.shape[1])
    after = []
    for t, task in enumerate(tasks):
        out = held_out(task.labels)
        fitted = fitted.grown(task.seen)
        held = held.grown(task.seen)
        _fold(fitted, task, P, ~out)
        _fold(held, task, P, out)
        empty = np.flatnonzero(fitted.weight <= 0)  # a held-out row has four fitted ones before it
        if len(empty) and fallback is not None:
            source = fallback()[t]  # as many rows at its mean as it has rows
            class_statistics.add_rows(fitted, source.means[empty], empty, source.weight[empty])
        both = fitted + held
        ridge = chosen_ridge(fitted, held)
        after.append(Regression(solve(both, ridge), ridge, both.weight, both.means()))
    return after


def held_out(labels: Labels) -> Mask:
    """Return the (n,) mask of every fifth row of each class, the first four being fitted."""
    mask = np.zeros(len(labels), dtype=np.bool_)
    for c in np.unique(labels):
        mask[np.flatnonzero(labels == c)[HELD_OUT - 1 :: HELD_OUT]] = True
    return mask


def _fold(statistics: ClassStatistics, task: LabelledTask, P: Matrix64, members: Mask) -> None:
    chosen = np.flatnonzero(members)
    for start in range(0, len(chosen), ROWS):
        block = chosen[start : start + ROWS]
        h = lifted(task.rows[block], P)
        class_statistics.add_rows(statistics, h, task.labels[block], task.weights[block])


def chosen_ridge(fitted: ClassStatistics, held: ClassStatistics) -> float:
    """Return the ridge of least squared error on the held-out rows, the smallest of equals."""
    if held.total_weight <= 0:
        return float(RIDGES[-1])
    gram = symmetric(held.scatter)

    def error(ridge: float) -> float:
        # Σω‖Wᵀh − y‖² = tr WᵀGW − 2 tr WᵀQ + Σω, and Σω is the same for every ridge
        W = solve(fitted, ridge)
        return float(np.vdot(W, product(gram, W)) - 2 * np.vdot(W, held.sums.T))

    return float(min(RIDGES, key=error))


def solve(statistics: ClassStatistics, ridge: float) -> Matrix64:
    """Return (G + λI)⁻¹Q, (M, K)."""
    gram = statistics.scatter.copy(order="F")
    gram[np.diag_indices_from(gram)] += ridge
    factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True)
    return np.asarray(scipy.linalg.cho_solve(factor, statistics.sums.T))


def of_source(problem: SeedProblem) -> list[Regression]:
    """Return the source's regression after each task."""
    P = projection(problem)
    return problem.shared("ranpac: source", lambda: regressions(source_tasks(problem), P))


def of_pseudo_labels(problem: SeedProblem) -> list[Regression]:
    """Return the target's regression after each task; of the source only means and counts are read."""
    tasks = pseudo_labelled_tasks(problem)
    return regressions(tasks, projection(problem), lambda: of_source(problem))


def _predict(problem: SeedProblem, after: Sequence[Regression]) -> list[Labels]:
    h = lifted(problem.test.views["original"], projection(problem))
    return [product(h, model.W).argmax(axis=1) for model in after]


METHODS = {
    "ranpac": ComparedMethod(
        lambda problem: _predict(problem, of_source(problem)), "RanPAC", "peer"
    ),
    "ranpac-pseudo": ComparedMethod(
        lambda problem: _predict(problem, of_pseudo_labels(problem)),
        "RanPAC, pseudo-labels",
        "peer",
    ),
}
