"""RanPAC (McDonnell et al., NeurIPS 2023): frozen random features, their Gram matrix and class sums, ridge regression.

Features are h(x) = max(Pᵀx, 0) with P (d, M) Gaussian and never trained. With G = Σωhhᵀ and Q = Σωhyᵀ over one-hot y,
scores are h(x)ᵀ(G + λI)⁻¹Q. G and Q are sums, so the order of rows and tasks does not matter.

After each task, λ is chosen from the authors' grid, 1e-8 to 1e8, by the squared error on every fifth row of each class
when fitted to the others; then all rows are fitted. Held-out and fitted rows are kept as two sums, which determine that
error, so the choice covers all tasks so far and reads no row again. If no class has five rows, λ is the largest.
The error is computed with the labels that the model is fitted to, so no true target label is used.

Deviations from the authors: `ranpac` has M = 1,500 projections instead of their 10,000, which `ranpac-10000` has (the
work grows with M³, or with the cube of the number of rows if that is smaller). Rows are scaled to length 1 and may have
weights. λ depends on every fifth row of all tasks so far; their code uses the last fifth of the current task. There is
no fine-tuning in the first task, which needs gradients.

Both are fitted to the source, their `-pseudo` forms to the target's weighted pseudo-labelled rows. A class with no kept
row is replaced by the source's mean, counted once for every source row of the class.
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

RIDGES = 10.0 ** np.arange(-8, 9)  # the authors' grid
ROWS_PER_FEATURE = 0.9  # fitted rows per feature up to which `FewRows` is cheaper than `Sums`


@dataclass(frozen=True, eq=False)
class Regression:
    """State after a task: coefficients W (M, C), the ridge, Σω (C,) and mean features (C, M) of the classes seen."""

    W: Matrix64
    ridge: float
    weight: Vector64
    means: Matrix64


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums G (M, M) and Q (M, C) of all rows so far, separately for fitted and held-out rows."""

    fitted_G: Matrix64
    fitted_Q: Matrix64
    held_G: Matrix64
    held_Q: Matrix64

    def added(self, B: Matrix64, Y: Matrix64, held_out: npt.NDArray[np.bool_]) -> "Sums":
        """Return the sums with further rows; Y (n, C) may have further classes."""
        padding = ((0, 0), (0, Y.shape[1] - self.held_Q.shape[1]))
        b, y, held_b, held_y = B[~held_out], Y[~held_out], B[held_out], Y[held_out]
        fitted_G, held_G = b.T @ b, held_b.T @ held_b
        fitted_G += self.fitted_G  # in place: allocating another M×M matrix takes as long as the addition
        held_G += self.held_G
        fitted_Q, held_Q = np.pad(self.fitted_Q, padding), np.pad(self.held_Q, padding)
        return Sums(fitted_G, fitted_Q + b.T @ y, held_G, held_Q + held_b.T @ held_y)

    @property
    def Q(self) -> Matrix64:  # noqa: N802  the paper's name
        """Q (M, C) of all rows."""
        return self.fitted_Q + self.held_Q

    def held_out_errors(self) -> Vector64:
        """Return Σω‖Wᵀh − y‖² − Σω of the held-out rows for each ridge, when fitted to the others."""
        W = ridge_solutions(self.fitted_G, self.fitted_Q, RIDGES)
        errors = np.sum(W * (self.held_G @ W - 2 * np.tile(self.held_Q, len(RIDGES))), axis=0)
        return np.asarray(errors.reshape(len(RIDGES), -1).sum(axis=1))

    def coefficients(self, ridge: float) -> Matrix64:
        """Return W (M, C) of all rows."""
        return ridge_solution(self.fitted_G + self.held_G, self.Q, ridge)


@dataclass(frozen=True, eq=False)
class FewRows:
    """All rows so far, the cheaper form while fewer rows are fitted than there are features.

    With B = √ω h (n, M) and Y = √ω y (n, C), (G + λI)⁻¹Q = Bᵀ(BBᵀ + λI)⁻¹Y takes n³ operations instead of M³.
    """

    B: Matrix64
    Y: Matrix64
    held_out: npt.NDArray[np.bool_]  # (n,)
    gram: Matrix64  # (n, n) BBᵀ

    def added(self, B: Matrix64, Y: Matrix64, held_out: npt.NDArray[np.bool_]) -> "FewRows | Sums":
        """Return all rows with further ones, as `Sums` if they are many; Y (n, C) may have further classes."""
        M = self.B.shape[1]
        if np.sum(~self.held_out) + np.sum(~held_out) > ROWS_PER_FEATURE * M:
            zeros = np.zeros((M, M)), np.zeros((M, 0))
            return Sums(*zeros, *zeros).added(self.B, self.Y, self.held_out).added(B, Y, held_out)
        cross, new_classes = B @ self.B.T, Y.shape[1] - self.Y.shape[1]
        return FewRows(
            np.vstack([self.B, B]),
            np.vstack([np.pad(self.Y, ((0, 0), (0, new_classes))), Y]),
            np.concatenate([self.held_out, held_out]),
            np.block([[self.gram, cross.T], [cross, B @ B.T]]),
        )

    @property
    def Q(self) -> Matrix64:  # noqa: N802  the paper's name
        """Q (M, C) of all rows."""
        return self.B.T @ self.Y

    def held_out_errors(self) -> Vector64:
        """Return Σω‖Wᵀh − y‖² of the held-out rows for each ridge, when fitted to the others."""
        fitted = ~self.held_out
        dual = ridge_solutions(self.gram[np.ix_(fitted, fitted)], self.Y[fitted], RIDGES)
        gaps = self.gram[np.ix_(self.held_out, fitted)] @ dual - np.tile(self.Y[self.held_out], len(RIDGES))
        return np.asarray(np.sum(gaps.reshape(len(gaps), len(RIDGES), -1) ** 2, axis=(0, 2)))

    def coefficients(self, ridge: float) -> Matrix64:
        """Return W (M, C) of all rows."""
        return self.B.T @ ridge_solution(self.gram, self.Y, ridge)


@dataclass
class RidgeRegression:
    """RanPAC with a given number of projections."""

    name: str
    projections: int  # M

    def projection(self, seed: Seed) -> Matrix64:
        """Return P (d, M), drawn with the seed's number."""
        size = (seed.basis.d, self.projections)
        draw = np.random.default_rng(seed.number).standard_normal
        return seed.shared(f"{self.name}: projection", lambda: draw(size))

    def fit(self, seed: Seed, tasks: Iterable[TaskRows], fallback: Fallback[Regression] | None) -> list[Regression]:
        """Return the regression after each task."""
        P = self.projection(seed)
        M = P.shape[1]
        weight, any_held_out = np.zeros(0), False
        sums: FewRows | Sums = FewRows(
            np.zeros((0, M)), np.zeros((0, 0)), np.zeros(0, dtype=np.bool_), np.zeros((0, 0))
        )
        regressions: list[Regression] = []
        for t, task in enumerate(tasks):
            C, held_out = task.classes_seen, folds(task.labels) == FOLDS - 1  # every fifth row of a class
            weight = np.pad(weight, (0, C - len(weight)))
            for block in row_blocks(len(task.rows), BLOCK_IMAGES):
                h = random_features(task.rows[block], P)
                B, Y = _scaled(h, task.labels[block], task.weights[block], C)
                weight, sums = weight + np.sum(Y**2, axis=0), sums.added(B, Y, held_out[block])
            empty = np.flatnonzero(weight <= 0)
            if len(empty) and fallback is not None:
                source = fallback()[t]
                B, Y = _scaled(source.means[empty], empty, source.weight[empty], C)
                weight, sums = weight + np.sum(Y**2, axis=0), sums.added(B, Y, np.zeros(len(B), dtype=np.bool_))
            any_held_out = any_held_out or bool(held_out.any())
            ridge = float(RIDGES[int(np.argmin(sums.held_out_errors()))] if any_held_out else RIDGES[-1])
            means = sums.Q.T / np.where(weight > 0, weight, np.nan)[:, None]
            regressions.append(Regression(sums.coefficients(ridge), ridge, weight, means))
        return regressions

    def predict(self, seed: Seed, regressions: Sequence[Regression]) -> list[Labels]:
        """Return the class (n,) of each test row after each task."""
        h = random_features(target_test_rows(seed), self.projection(seed))
        return [(h @ model.W).argmax(axis=1) for model in regressions]

    def methods(self) -> dict[str, ComparedMethod]:
        """Return both forms by name, for METHODS."""
        title = f"RanPAC ({self.projections:,} projections)"
        return peer_methods(self.name, title, self.fit, self.predict)


def random_features(x: Matrix, P: Matrix64) -> Matrix64:
    """Return the features h (n, M) of embeddings (n, d)."""
    return np.maximum(unit_rows(x) @ P, 0)


def _scaled(h: Matrix64, labels: Labels, weights: Vector64, C: int) -> tuple[Matrix64, Matrix64]:
    """Return √ω h (n, M) and √ω y (n, C)."""
    root = np.sqrt(weights)[:, None]
    return root * h, root * np.eye(C)[labels]


def ridge_solution(matrix: Matrix64, right: Matrix64, ridge: float) -> Matrix64:
    """Return (A + λI)⁻¹·right for a symmetric matrix A."""
    regular = matrix + ridge * np.eye(len(matrix))
    try:
        return cholesky.solve(regular, right)
    except InputError:  # the ridge is below rounding: use LU as the authors do
        return np.asarray(np.linalg.solve(regular, right))


RANPAC, RANPAC_10000 = RidgeRegression("ranpac", 1500), RidgeRegression("ranpac-10000", 10_000)
METHODS = RANPAC.methods() | RANPAC_10000.methods()
