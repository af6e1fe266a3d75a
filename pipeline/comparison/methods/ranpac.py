"""RanPAC (McDonnell et al., NeurIPS 2023): frozen random features, their Gram matrix and class sums, ridge regression.

h(x) = max(Pᵀx, 0) with P (d, M) Gaussian and never trained; G = Σωhhᵀ and Q = Σωhyᵀ over one-hot y; scores are
h(x)ᵀ(G + λI)⁻¹Q. Both are sums, so the order of rows and tasks does not matter.

λ is chosen after each task from the authors' grid, 1e-8 to 1e8, by the squared error on every fifth row of each class
when fitted to the others; then all rows are fitted. Held-out and fitted rows are kept as two sums, which give that
error, so the choice covers all tasks so far and reads no row again. If no class has five rows, λ is the largest.
Labels are those that the model is fitted to: no true target label is used.

Deviations from the authors: M = 1,500 projections in place of 10,000 (`PROJECTIONS`; the work grows with M³), which
the title says; unit rows; λ from all tasks so far and every fifth row, where their code takes the last fifth of the
current task; no fine-tuning in the first task, which takes gradients.

`ranpac` is fitted to the source, `ranpac-pseudo` to the target's weighted pseudo-labelled rows. A class with no kept
row enters as so many rows at the source's mean as the source has rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.labelled_tasks import TaskRows, target_test_rows
from pipeline.comparison.peer import Fallback, peer_methods
from pipeline.errors import InputError
from pipeline.method import cholesky, class_statistics
from pipeline.method.class_statistics import ClassStatistics, symmetric
from pipeline.method.rows import Labels, Matrix, Matrix64, Vector64, row_blocks, unit_rows
from pipeline.problem.seed import Seed

PROJECTIONS = 1500  # M; the authors' is 10,000
RIDGES = 10.0 ** np.arange(-8, 9)  # the authors'
HELD_OUT = 5  # every fifth row of a class
BLOCK_ROWS = 2048  # projected at a time, which bounds the memory


@dataclass(frozen=True, eq=False)
class Regression:
    """After a task: coefficients W (M, C), the ridge chosen, Σω (C,) and mean features (C, M) of the classes seen."""

    W: Matrix64
    ridge: float
    weight: Vector64
    means: Matrix64


@dataclass(frozen=True)
class RidgeRegression:
    """RanPAC on so many projections: `ranpac`, and `ranpac-10000`, whose sums G and Q are kept in another form.

    Sums have the methods `grown`, `update`, `+`, `means` and the field `weight` of `ClassStatistics`.
    """

    name: str
    projections: Callable[[], int]  # M
    empty: Callable[[int, int], Any]  # sums of C classes and M features
    errors: Callable[[Any, Any], Vector64]  # of held-out rows by ridge, up to a constant
    solve: Callable[[Any, float], Matrix64]  # (G + λI)⁻¹Q (M, C)

    def projection(self, seed: Seed) -> Matrix64:
        """Return P (d, M), drawn from the seed's number."""
        size = (seed.basis.d, self.projections())
        draw = np.random.default_rng(seed.number).standard_normal
        return seed.shared(f"{self.name}: projection", lambda: draw(size))

    def fit(
        self, seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Regression] | None
    ) -> list[Regression]:
        """Return the regression after each task."""
        P = self.projection(seed)
        fitted = held = self.empty(0, P.shape[1])
        regressions = []
        for t, task in enumerate(tasks):
            out = held_out(task.labels)
            fitted, held = fitted.grown(task.classes_seen), held.grown(task.classes_seen)
            _fold(fitted, task, P, np.flatnonzero(~out))
            _fold(held, task, P, np.flatnonzero(out))
            empty = np.flatnonzero(fitted.weight <= 0)  # a class with held-out rows has fitted ones
            if len(empty) and fallback is not None:
                source = fallback()[t]
                fitted.update(source.means[empty], empty, source.weight[empty])
            everything, ridge = fitted + held, float(RIDGES[-1])
            if held.weight.any():
                ridge = float(RIDGES[int(np.argmin(self.errors(fitted, held)))])
            W = self.solve(everything, ridge)
            regressions.append(Regression(W, ridge, everything.weight, everything.means()))
        return regressions

    def predict(self, seed: Seed, regressions: Sequence[Regression]) -> list[Labels]:
        """Return the class (n,) of each test row after each task."""
        h = random_features(target_test_rows(seed), self.projection(seed))
        return [(h @ model.W).argmax(axis=1) for model in regressions]

    def methods(self) -> dict[str, ComparedMethod]:
        """Return both forms, for the METHODS of a file."""
        title = f"RanPAC ({self.projections():,} projections)"
        return peer_methods(self.name, title, self.fit, self.predict)


def random_features(x: Matrix, P: Matrix64) -> Matrix64:
    """Return h (n, M) of embeddings (n, d)."""
    return np.maximum(unit_rows(x) @ P, 0)


def held_out(labels: Labels) -> npt.NDArray[np.bool_]:
    """Return the mask (n,) of every fifth row of each class."""
    mask = np.zeros(len(labels), dtype=np.bool_)
    for c in np.unique(labels):
        mask[np.flatnonzero(labels == c)[HELD_OUT - 1 :: HELD_OUT]] = True
    return mask


def _fold(sums: Any, task: TaskRows, P: Matrix64, index: npt.NDArray[np.intp]) -> None:
    for block in row_blocks(len(index), BLOCK_ROWS):
        rows = index[block]
        sums.update(random_features(task.rows[rows], P), task.labels[rows], task.weights[rows])


def _held_out_errors(fitted: ClassStatistics, held: ClassStatistics) -> Vector64:
    """Return for each ridge Σω‖Wᵀh − y‖² of the held-out rows, less Σω, which is the same for every ridge.

    G = U T Uᵀ with T tridiagonal, so that (T + λI)⁻¹ costs next to nothing for any number of ridges. At M = 1,500 all
    17 take 0.16 s of CPU; by eigenvectors 0.4 s, by a Cholesky factor for each 0.7 s.
    """
    M, C = fitted.D, fitted.C
    work = int(lapack.dsytrd_lwork(M, lower=1)[0])
    turned, diagonal, side, reflections, _ = lapack.dsytrd(fitted.scatter, lower=1, lwork=work)

    def rotated(rows: Matrix64, trans: str) -> Matrix64:
        result = np.array(rows, order="F")
        result[1:] = lapack.dormqr("L", trans, turned[1:, :-1], reflections, rows[1:], 64 * M)[0]
        return result

    right = rotated(fitted.sums.T, "T")
    solved = [lapack.dgtsv(side, diagonal + ridge, side, right)[3] for ridge in RIDGES]
    W = rotated(np.hstack(solved), "N")
    # tr WᵀGW − 2 tr WᵀQ of each ridge's C columns
    targets = np.tile(held.sums.T, len(RIDGES))
    each = np.einsum("mc,mc->c", W, symmetric(held.scatter) @ W - 2 * targets)
    return np.asarray(each.reshape(len(RIDGES), C).sum(axis=1))


def solve(statistics: ClassStatistics, ridge: float) -> Matrix64:
    """Return (G + λI)⁻¹Q (M, C)."""
    gram = _with_ridge(statistics.scatter.copy(order="F"), ridge)
    try:
        return cholesky.solve(gram, statistics.sums.T)
    except InputError:  # a ridge below rounding: LU, as the authors solve it
        gram = _with_ridge(symmetric(statistics.scatter), ridge)
        return np.asarray(np.linalg.solve(gram, statistics.sums.T), dtype=np.float64)


def _with_ridge(gram: Matrix64, ridge: float) -> Matrix64:
    gram[np.diag_indices_from(gram)] += ridge
    return gram


RANPAC = RidgeRegression(
    "ranpac", lambda: PROJECTIONS, class_statistics.zeros, _held_out_errors, solve
)
METHODS = RANPAC.methods()
