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

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.labelled_tasks import TaskRows, target_test_rows
from pipeline.comparison.peer import Fallback, peer_methods
from pipeline.errors import InputError
from pipeline.method import cholesky
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


@dataclass(eq=False)
class Sums:
    """G (M, M), Q (M, C) and Σω (C,) of M features and C classes.

    While there are no more rows than features, G = BᵀB is kept as the rows B = √ω h (k, M) with Y = √ω y (k, C):
    (G + λI)⁻¹Q = Bᵀ(BBᵀ + λI)⁻¹Y takes k³ operations in place of M³.
    """

    Q: Matrix64
    weight: Vector64
    B: Matrix64
    Y: Matrix64
    G: Matrix64 | None = None  # with more rows than features; there is no B then

    def grown(self, C: int) -> Sums:
        """Return the sums with further classes, C in all."""
        more = ((0, 0), (0, C - len(self.weight)))
        Q, Y = np.pad(self.Q, more), np.pad(self.Y, more)
        return Sums(Q, np.pad(self.weight, more[1]), self.B, Y, self.G)

    def update(self, h: Matrix64, labels: Labels, weights: Vector64) -> None:
        """Add rows h (n, M)."""
        root, one_hot = np.sqrt(weights)[:, None], np.eye(len(self.weight))[labels]
        self._add(Sums(h.T @ (root**2 * one_hot), weights @ one_hot, root * h, root * one_hot))

    def __add__(self, other: Sums) -> Sums:
        both = Sums(self.Q, self.weight, self.B, self.Y, self.G)
        both._add(other)
        return both

    def _add(self, other: Sums) -> None:
        self.Q, self.weight = self.Q + other.Q, self.weight + other.weight
        kept = self.G is None and other.G is None
        if kept and len(self.B) + len(other.B) <= len(self.Q):
            self.B, self.Y = np.vstack([self.B, other.B]), np.vstack([self.Y, other.Y])
        else:
            self.G, self.B, self.Y = self._gram() + other._gram(), self.B[:0], self.Y[:0]

    def _gram(self) -> Matrix64:
        return self.B.T @ self.B if self.G is None else self.G

    def means(self) -> Matrix64:
        """Return the mean features (C, M); NaN for a class without rows."""
        return np.asarray(self.Q.T / np.where(self.weight > 0, self.weight, np.nan)[:, None])

    def solve(self, solver: Callable[[Matrix64, Matrix64], Matrix64]) -> Matrix64:
        """Return the solution W (M, ·) of G W = Q by ``solver``, which is given a symmetric matrix and a right side."""
        if self.G is None:
            return self.B.T @ solver(self.B @ self.B.T, self.Y)
        return solver(self.G, self.Q)

    def errors(self, W: Matrix64) -> Matrix64:
        """Return Σω(wᵀh − y)² − Σωy² of every column w, (M, m·C), for the class of the column."""
        targets = np.tile(self.Q, W.shape[1] // max(1, len(self.weight)))
        squares = np.sum((self.B @ W) ** 2, axis=0)
        if self.G is not None:
            squares = np.sum(W * (self.G @ W), axis=0)
        return np.asarray(squares - 2 * np.sum(W * targets, axis=0))


def no_rows(C: int, M: int) -> Sums:
    """Return the sums of no row."""
    return Sums(np.zeros((M, C)), np.zeros(C), np.zeros((0, M)), np.zeros((0, C)))


@dataclass(frozen=True)
class RidgeRegression:
    """RanPAC on so many projections."""

    name: str
    projections: Callable[[], int]  # M

    def projection(self, seed: Seed) -> Matrix64:
        """Return P (d, M), drawn from the seed's number."""
        size = (seed.basis.d, self.projections())
        draw = np.random.default_rng(seed.number).standard_normal
        return seed.shared(f"{self.name}: projection", lambda: draw(size))

    def fit(self, seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Regression] | None) -> list[Regression]:
        """Return the regression after each task."""
        P = self.projection(seed)
        fitted = held = no_rows(0, P.shape[1])
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
                ridge = float(RIDGES[int(np.argmin(held_out_errors(fitted, held)))])
            W = solve(everything, ridge)
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


def _fold(sums: Sums, task: TaskRows, P: Matrix64, index: npt.NDArray[np.intp]) -> None:
    for block in row_blocks(len(index), BLOCK_ROWS):
        rows = index[block]
        sums.update(random_features(task.rows[rows], P), task.labels[rows], task.weights[rows])


def held_out_errors(fitted: Sums, held: Sums) -> Vector64:
    """Return for each ridge Σω‖Wᵀh − y‖² of the held-out rows, less Σω, which is the same for every ridge."""
    W = fitted.solve(_solutions)
    return np.asarray(held.errors(W).reshape(len(RIDGES), -1).sum(axis=1))


def _solutions(matrix: Matrix64, right: Matrix64) -> Matrix64:
    """Return (A + λI)⁻¹·right for every ridge, side by side: (n, 17·C).

    A = U T Uᵀ with T tridiagonal, so that (T + λI)⁻¹ costs next to nothing for any number of ridges. At n = 1,500 all
    17 take 0.16 s of CPU; by eigenvectors 0.4 s, by a Cholesky factor for each 0.5 s.
    """
    n = len(matrix)
    work = int(lapack.dsytrd_lwork(n, lower=1)[0])
    turned, diagonal, side, reflections, _ = lapack.dsytrd(matrix, lower=1, lwork=work)

    def rotated(rows: Matrix64, trans: str) -> Matrix64:
        result = np.array(rows, order="F")
        if n > 1:
            result[1:] = lapack.dormqr("L", trans, turned[1:, :-1], reflections, rows[1:], 64 * n)[0]
        return result

    aside = rotated(right, "T")
    solved = [lapack.dgtsv(side, diagonal + ridge, side, aside)[3] for ridge in RIDGES]
    return rotated(np.hstack(solved), "N")


def solve(sums: Sums, ridge: float) -> Matrix64:
    """Return (G + λI)⁻¹Q (M, C)."""

    def solver(matrix: Matrix64, right: Matrix64) -> Matrix64:
        regular = matrix + ridge * np.eye(len(matrix))
        try:
            return cholesky.solve(regular, right)
        except InputError:  # a ridge below rounding: LU, as the authors solve it
            return np.asarray(np.linalg.solve(regular, right))

    return sums.solve(solver)


RANPAC = RidgeRegression("ranpac", lambda: PROJECTIONS)
METHODS = RANPAC.methods()
