"""Relabel a task in the space of its rows: one factorisation for all rounds and the final classifier.

Only the labels and weights of the current task's m rows change between rounds. With everything else fixed,

    B = S_source + S_earlier + κI,      A = B + UᵀQU,      Q = diag(ω) − R diag(1/N) Rᵀ

A is the regularised scatter of a round, U (m, D) are the task's rows, and Q (m, m) depends on the round's labels: R
(m, C) are the responsibilities, ω their sums over the classes, N their sums over the rows. Every class mean of the task
is a combination of rows of V, which is U with the source's means appended. So the scores of U need only the Gram matrix
G = V B⁻¹ Vᵀ:

    U A⁻¹ Vᵀ = (I + G_UU Q)⁻¹ G_UV                                    (Woodbury)

and a round costs m³ instead of D³/3 + m D². The classifier after the last round uses the same factor. The result is
that of the general path up to rounding, which tests verify.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError
from pipeline.method.cholesky import SINGULAR, Factor, factor
from pipeline.method.kernel_lda import Classifier, with_biases
from pipeline.method.rows import Matrix, Matrix64, Vector64


def row_space_is_cheaper(m: int, D: int, rounds: int) -> bool:
    """Return whether the rounds take fewer multiplications in the space of m rows than with D features."""
    in_row_space = D * D * m + m * m * D + (rounds + 1) * 2 / 3 * m**3
    general = rounds * (D**3 / 3 + m * D * D / 2)
    return in_row_space < general


@dataclass(frozen=True, eq=False)
class RowSpace:
    """A task of m rows and C classes in row space; created by `row_space`.

    The methods take the responsibilities R (m, C) of a round: the weight of each row in each class, with the rows view
    by view. With hard labels, each row has weight in a single class.
    """

    factor: Factor  # L of B = L·Lᵀ
    projected: Matrix64  # (D, m + C) L⁻¹Vᵀ
    gram: Matrix64  # (m + C, m + C) G = V B⁻¹ Vᵀ
    prior_count: float  # number of rows that each source mean counts as
    total: float  # Σω of the source and the earlier tasks

    def _task_means(self, R: Matrix64) -> tuple[Matrix64, Vector64]:
        """Return the task's class means as combinations of the rows of V, (m + C, C), and the class weights (C,)."""
        weight = R.sum(axis=0) + self.prior_count
        means = np.vstack([R, self.prior_count * np.eye(R.shape[1])])
        empty = weight <= 0
        means[len(R) + np.flatnonzero(empty), empty] = 1.0  # the source's mean
        return means / np.where(empty, 1.0, weight), np.asarray(weight)

    def scores(self, R: Matrix64, *, counted_priors: bool = False) -> Matrix64:
        """Return the scores F (m, C) of the task's rows over its classes.

        With ``counted_priors``, add the log of each class's share of the total weight.
        """
        means, weight = self._task_means(R)
        m = len(R)
        projected = self.gram @ means  # V B⁻¹ m_c, (m + C, C)
        products = _solved(self._system(R), projected[:m])  # U A⁻¹ m_c, (m, C)
        # m_cᵀA⁻¹m_c = m_cᵀB⁻¹m_c − (Q U B⁻¹m_c)ᵀ(U A⁻¹ m_c)
        squares = np.einsum("vc,vc->c", means, projected)
        squares -= np.einsum("mc,mc->c", _weighted(R, projected[:m]), products)
        scores = (self.total + float(R.sum())) * (products - 0.5 * squares)
        if counted_priors:
            counted = np.maximum(weight, 1.0)
            scores += np.log(counted / counted.sum())
        return np.asarray(scores)

    def classifier(self, R: Matrix64, means: Matrix64, priors: Matrix64 | None) -> Classifier:
        """Return the classifier of all K classes seen, given their means (K, D) and priors (K,) after the round."""
        half = self.factor.forward(means.T)
        rows = self.projected[:, : len(R)]
        # A⁻¹ = B⁻¹ − B⁻¹Uᵀ (I + QG)⁻¹ Q U B⁻¹, and (I + QG)⁻¹Q = Q (I + GQ)⁻¹
        inner = _weighted(R, _solved(self._system(R), rows.T @ half))
        half -= rows @ inner
        W = (self.total + float(R.sum())) * self.factor.backward(half)
        return with_biases(means, W, priors)

    def _system(self, R: Matrix64) -> Matrix64:
        """Return I + GQ, (m, m)."""
        m = len(R)
        system = _weighted(R, self.gram[:m, :m]).T  # (QG)ᵀ = GQ: both are symmetric
        system[np.diag_indices(m)] += 1.0
        return system


def _weighted(R: Matrix64, matrix: Matrix64) -> Matrix64:
    """Return Q·matrix (m, k): weighted rows minus the weighted means of their classes, given R (m, C)."""
    weight = R.sum(axis=0)
    mean = (R.T @ matrix) / np.where(weight > 0, weight, 1.0)[:, None]
    weighted = np.multiply(R.sum(axis=1)[:, None], matrix, order="C")
    weighted -= R @ mean
    return np.asarray(weighted)


def _solved(system: Matrix64, right: Matrix64) -> Matrix64:
    """Return system⁻¹·right, (m, k)."""
    try:
        return np.asarray(np.linalg.solve(system, right))
    except np.linalg.LinAlgError:
        raise InputError(SINGULAR) from None


def within_trace(rows: Matrix, R: Matrix64) -> float:
    """Return the trace of the scatter Σω u uᵀ − Σ_c N_c m_c m_cᵀ of rows (m, D) about their class means m_c."""
    weight = R.sum(axis=0)
    sums = R.T @ rows.astype(np.float64)
    squares = np.einsum("md,md->m", rows, rows, dtype=np.float64)
    known = weight > 0
    between = (np.einsum("cd,cd->c", sums, sums)[known] / weight[known]).sum()
    return float(R.sum(axis=1) @ squares - between)


def row_space(
    fixed: Matrix64, ridge: float, rows: Matrix, source_means: Matrix64, *, prior_count: float, total: float
) -> RowSpace:
    """Factor B = ``fixed`` + ridge·I (D, D; lower triangle, overwritten) and project the task's rows (m, D)."""
    fixed[np.diag_indices_from(fixed)] += ridge
    L = factor(fixed)
    V = np.vstack([rows.astype(np.float64), source_means])
    projected = L.forward(V.T)
    return RowSpace(L, projected, projected.T @ projected, prior_count, total)
