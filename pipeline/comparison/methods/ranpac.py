"""RanPAC (McDonnell et al., NeurIPS 2023): frozen random features, their Gram matrix and class sums, ridge regression.

h(x) = max(Pᵀx, 0) with P (d, M) Gaussian and never trained; G = Σωhhᵀ and Q = Σωhyᵀ over one-hot y; scores are
h(x)ᵀ(G + λI)⁻¹Q. Both are sums, so the order of rows and tasks does not matter.

λ is chosen after each task from the authors' grid, 1e-8 to 1e8, by the squared error on every fifth row of each class
when fitted to the others; then all rows are fitted. Held-out and fitted rows are kept as two sums, which give that
error, so the choice covers all tasks so far and reads no row again. If no class has five rows, λ is the largest.
Labels are those that the model is fitted to: no true target label is used.

Deviations from the authors: `ranpac` has M = 1,500 projections in place of their 10,000, which `ranpac-10000` has (the
work grows with M³, or with the cube of the rows where these are fewer); unit rows; λ from all tasks so far and every
fifth row, where their code takes the last fifth of the current task; no fine-tuning in the first task, which takes
gradients.

Both are fitted to the source, their forms with `-pseudo` to the target's weighted pseudo-labelled rows. A class with no
kept row enters as so many rows at the source's mean as the source has rows of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.labelled_tasks import Fallback, TaskRows, peer_methods, target_test_rows
from pipeline.comparison.ridge_solutions import ridge_solutions
from pipeline.errors import InputError
from pipeline.method import cholesky
from pipeline.method.backbone_weights import FOLDS, folds
from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix, Matrix64, Vector64, row_blocks, unit_rows
from pipeline.problem.seed import Seed

RIDGES = 10.0 ** np.arange(-8, 9)  # the authors'
ROWS_PER_FEATURE = 0.9  # fitted rows up to which their own products are the cheaper form


@dataclass(frozen=True, eq=False)
class Regression:
    """After a task: coefficients W (M, C), the ridge chosen, Σω (C,) and mean features (C, M) of the classes seen."""

    W: Matrix64
    ridge: float
    weight: Vector64
    means: Matrix64


@dataclass(frozen=True, eq=False)
class Sums:
    """All rows so far, by their sums: G (M, M) and Q (M, C) of the fitted and of the held-out rows."""

    fitted_G: Matrix64
    fitted_Q: Matrix64
    held_G: Matrix64
    held_Q: Matrix64

    def added(self, B: Matrix64, Y: Matrix64, out: npt.NDArray[np.bool_]) -> "Sums":
        """Return these with further rows; Y (n, C) may have further classes."""
        more = ((0, 0), (0, Y.shape[1] - self.held_Q.shape[1]))
        b, y, held_b, held_y = B[~out], Y[~out], B[out], Y[out]
        fitted_G, held_G = b.T @ b, held_b.T @ held_b
        fitted_G += self.fitted_G  # in the new memory: a further M×M matrix takes as long to fetch as to add
        held_G += self.held_G
        return Sums(
            fitted_G, np.pad(self.fitted_Q, more) + b.T @ y, held_G, np.pad(self.held_Q, more) + held_b.T @ held_y
        )

    @property
    def Q(self) -> Matrix64:  # noqa: N802  the paper's name
        """Q (M, C) of all rows."""
        return self.fitted_Q + self.held_Q

    def held_out_errors(self) -> Vector64:
        """Return for each ridge Σω‖Wᵀh − y‖² of the held-out rows, when fitted to the others, less Σω."""
        W = ridge_solutions(self.fitted_G, self.fitted_Q, RIDGES)
        errors = np.sum(W * (self.held_G @ W - 2 * np.tile(self.held_Q, len(RIDGES))), axis=0)
        return np.asarray(errors.reshape(len(RIDGES), -1).sum(axis=1))

    def coefficients(self, ridge: float) -> Matrix64:
        """Return W (M, C) of all rows."""
        return ridge_solution(self.fitted_G + self.held_G, self.Q, ridge)


@dataclass(frozen=True, eq=False)
class FewRows:
    """The same while fewer rows are fitted than there are features.

    With B = √ω h (n, M) and Y = √ω y (n, C), (G + λI)⁻¹Q = Bᵀ(BBᵀ + λI)⁻¹Y takes n³ operations in place of M³.
    """

    B: Matrix64
    Y: Matrix64
    out: npt.NDArray[np.bool_]  # (n,) held out
    gram: Matrix64  # (n, n) BBᵀ

    def added(self, B: Matrix64, Y: Matrix64, out: npt.NDArray[np.bool_]) -> "FewRows | Sums":
        """Return these with further rows; Y (n, C) may have further classes."""
        before, M = self.B, self.B.shape[1]
        if np.sum(~self.out) + np.sum(~out) > ROWS_PER_FEATURE * M:
            nothing = np.zeros((M, M)), np.zeros((M, 0))
            empty = Sums(*nothing, *nothing)
            return empty.added(before, self.Y, self.out).added(B, Y, out)
        cross, more = B @ before.T, Y.shape[1] - self.Y.shape[1]
        return FewRows(
            np.vstack([before, B]),
            np.vstack([np.pad(self.Y, ((0, 0), (0, more))), Y]),
            np.concatenate([self.out, out]),
            np.block([[self.gram, cross.T], [cross, B @ B.T]]),
        )

    @property
    def Q(self) -> Matrix64:  # noqa: N802  the paper's name
        """Q (M, C) of all rows."""
        return self.B.T @ self.Y

    def held_out_errors(self) -> Vector64:
        """Return for each ridge Σω‖Wᵀh − y‖² of the held-out rows, when fitted to the others."""
        inside = ~self.out
        dual = ridge_solutions(self.gram[np.ix_(inside, inside)], self.Y[inside], RIDGES)
        gaps = self.gram[np.ix_(self.out, inside)] @ dual - np.tile(self.Y[self.out], len(RIDGES))
        return np.asarray(np.sum(gaps.reshape(len(gaps), len(RIDGES), -1) ** 2, axis=(0, 2)))

    def coefficients(self, ridge: float) -> Matrix64:
        """Return W (M, C) of all rows."""
        return self.B.T @ ridge_solution(self.gram, self.Y, ridge)


@dataclass
class RidgeRegression:
    """RanPAC on so many projections."""

    name: str
    projections: int  # M

    def projection(self, seed: Seed) -> Matrix64:
        """Return P (d, M), drawn from the seed's number."""
        size = (seed.basis.d, self.projections)
        draw = np.random.default_rng(seed.number).standard_normal
        return seed.shared(f"{self.name}: projection", lambda: draw(size))

    def fit(self, seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Regression] | None) -> list[Regression]:
        """Return the regression after each task."""
        P = self.projection(seed)
        M = P.shape[1]
        weight, any_out = np.zeros(0), False
        sums: FewRows | Sums = FewRows(
            np.zeros((0, M)), np.zeros((0, 0)), np.zeros(0, dtype=np.bool_), np.zeros((0, 0))
        )
        regressions: list[Regression] = []
        for t, task in enumerate(tasks):
            C, out = task.classes_seen, folds(task.labels) == FOLDS - 1  # every fifth row of a class
            weight = np.pad(weight, (0, C - len(weight)))
            for block in row_blocks(len(task.rows), BLOCK_IMAGES):
                h = random_features(task.rows[block], P)
                B, Y = _scaled(h, task.labels[block], task.weights[block], C)
                weight, sums = weight + np.sum(Y**2, axis=0), sums.added(B, Y, out[block])
            empty = np.flatnonzero(weight <= 0)
            if len(empty) and fallback is not None:
                source = fallback()[t]
                B, Y = _scaled(source.means[empty], empty, source.weight[empty], C)
                weight, sums = weight + np.sum(Y**2, axis=0), sums.added(B, Y, np.zeros(len(B), dtype=np.bool_))
            any_out = any_out or bool(out.any())
            ridge = float(RIDGES[int(np.argmin(sums.held_out_errors()))] if any_out else RIDGES[-1])
            means = sums.Q.T / np.where(weight > 0, weight, np.nan)[:, None]
            regressions.append(Regression(sums.coefficients(ridge), ridge, weight, means))
        return regressions

    def predict(self, seed: Seed, regressions: Sequence[Regression]) -> list[Labels]:
        """Return the class (n,) of each test row after each task."""
        h = random_features(target_test_rows(seed), self.projection(seed))
        return [(h @ model.W).argmax(axis=1) for model in regressions]

    def methods(self) -> dict[str, ComparedMethod]:
        """Return both forms, for the METHODS of a file."""
        title = f"RanPAC ({self.projections:,} projections)"
        return peer_methods(self.name, title, self.fit, self.predict)


def random_features(x: Matrix, P: Matrix64) -> Matrix64:
    """Return h (n, M) of embeddings (n, d)."""
    return np.maximum(unit_rows(x) @ P, 0)


def _scaled(h: Matrix64, labels: Labels, weights: Vector64, C: int) -> tuple[Matrix64, Matrix64]:
    """Return √ω h (n, M) and √ω y (n, C)."""
    root = np.sqrt(weights)[:, None]
    return root * h, root * np.eye(C)[labels]


def ridge_solution(matrix: Matrix64, right: Matrix64, ridge: float) -> Matrix64:
    """Return (A + λI)⁻¹·right of a symmetric matrix."""
    regular = matrix + ridge * np.eye(len(matrix))
    try:
        return cholesky.solve(regular, right)
    except InputError:  # a ridge below rounding: LU, as the authors solve it
        return np.asarray(np.linalg.solve(regular, right))


RANPAC, RANPAC_10000 = RidgeRegression("ranpac", 1500), RidgeRegression("ranpac-10000", 10_000)
METHODS = RANPAC.methods() | RANPAC_10000.methods()
