"""Rounds of relabelling in the space of a task's rows: one factorisation for all rounds and the final classifier.

Between two rounds only the labels and weights of the current task's m rows change. With everything else fixed,

    K = S_source + S_earlier + κI,      K + UᵀQU,      Q = diag(ω) − Σ_c ω_c ω_cᵀ / Σω_c

is the regularised scatter of a round, U (m, D) the task's rows and Q (m, m) what a round's labels make of them (ω_c is
ω on the rows of class c, zero otherwise). Every mean of the task is a combination of rows of V, U with the source's
means below it. So the scores of U need the Gram matrix G = V K⁻¹ Vᵀ alone:

    U (K + UᵀQU)⁻¹ Vᵀ = (I + G_UU Q)⁻¹ G_UV                                    (Woodbury)

and a round costs m³ instead of D³/3 + m D². The classifier after the last round comes from the same factor. It is the
same arithmetic, in another order: tests hold it to the general path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError
from pipeline.method.blas_products import class_selection, gram, product
from pipeline.method.cholesky import SINGULAR, backward, factor, forward
from pipeline.method.kernel_lda import Classifier, log_priors, with_biases
from pipeline.method.rows import Labels, Matrix, Matrix64, Vector64


def cheaper(m: int, D: int, rounds: int) -> bool:
    """Return whether so many rounds take fewer multiplications in the space of m rows than in D features."""
    in_row_space = D * D * m + m * m * D + (rounds + 1) * 2 / 3 * m**3
    general = rounds * (D**3 / 3 + m * D * D / 2)
    return in_row_space < general


@dataclass(frozen=True, eq=False)
class RowLabels:
    """A round's labels of the m rows: every view of every image, view after view."""

    label: Labels  # (m,) position of the class in the task's class set
    weight: Vector64  # (m,)


@dataclass(frozen=True, eq=False)
class RowSpace:
    """A task of m rows and C classes in row space; made by `row_space`."""

    lower: Matrix64  # (D, D) Cholesky factor L of K
    projected: Matrix64  # (D, m + C) L⁻¹Vᵀ
    gram: Matrix64  # (m + C, m + C) G = V K⁻¹ Vᵀ
    rows: int  # m
    prior_count: float  # number of rows that the source's means count as
    total: float  # Σω of the source and of earlier tasks

    def task_means(self, labels: RowLabels) -> tuple[Matrix64, Vector64]:
        """Return the task's class means as combinations of V's rows, (m + C, C), and the classes' weights (C,)."""
        m, C = self.rows, self.gram.shape[0] - self.rows
        weight = np.bincount(labels.label, labels.weight, minlength=C) + self.prior_count
        means = np.zeros((m + C, C))
        means[np.arange(m), labels.label] = labels.weight
        means[m + np.arange(C), np.arange(C)] = self.prior_count
        empty = weight <= 0
        means[m + np.flatnonzero(empty), empty] = 1.0  # the documented fallback: the source's mean
        return means / np.where(empty, 1.0, weight), np.asarray(weight, dtype=np.float64)

    def total_weight(self, labels: RowLabels) -> float:
        """Σω of source, earlier tasks and this one."""
        return self.total + float(labels.weight.sum())

    def scores(self, labels: RowLabels, *, counted_priors: bool = False) -> Matrix64:
        """Return F (m, C) of the task's own rows over its own classes, under a round's labels.

        With ``counted_priors``, the log of each class's share of the weight is added.
        """
        means, weight = self.task_means(labels)
        m, total = self.rows, self.total_weight(labels)
        projected = product(self.gram, means)  # V K⁻¹ m_c, (m + C, C)
        mixed = _solved(self._system(labels), projected[:m])  # U A⁻¹ m_c, (m, C)
        # m_cᵀA⁻¹m_c = m_cᵀK⁻¹m_c − (Q U K⁻¹m_c)ᵀ(U A⁻¹ m_c)
        own = np.einsum("vc,vc->c", means, projected)
        own -= np.einsum("mc,mc->c", self._weighted(labels, projected[:m]), mixed)
        scores = total * (mixed - 0.5 * own)
        if counted_priors:
            scores += log_priors(np.maximum(weight, 1.0), len(weight))
        return np.asarray(scores)

    def classifier(
        self, labels: RowLabels, means: Matrix64, priors: Matrix64 | None = None
    ) -> Classifier:
        """Return the classifier of all K classes seen, given their means (K, D) and weights (K,) after the round."""
        m, total = self.rows, self.total_weight(labels)
        half = forward(self.lower, means.T)
        rows = self.projected[:, :m]
        # (K + UᵀQU)⁻¹ = K⁻¹ − K⁻¹Uᵀ (I + QG)⁻¹ Q U K⁻¹, and (I + QG)⁻¹Q = Q (I + GQ)⁻¹
        inner = self._weighted(labels, _solved(self._system(labels), product(rows.T, half)))
        half -= product(rows, inner)
        W = total * backward(self.lower, half)
        return with_biases(means, W, priors)

    def _system(self, labels: RowLabels) -> Matrix64:
        """Return I + GQ, (m, m)."""
        m = self.rows
        system = self._weighted(labels, self.gram[:m, :m]).T  # (QG)ᵀ = GQ: both are symmetric
        system[np.diag_indices(m)] += 1.0
        return system

    def _weighted(self, labels: RowLabels, matrix: Matrix64) -> Matrix64:
        """Return Q·matrix (m, k): weighted rows less their class's weighted mean."""
        selection = class_selection(labels.label, labels.weight, len(self.gram) - self.rows)
        weight = selection.sum(axis=1)
        mean = product(selection, matrix) / np.where(weight > 0, weight, 1.0)[:, None]
        return np.asarray(labels.weight[:, None] * (matrix - mean[labels.label]))


def _solved(system: Matrix64, right: Matrix64) -> Matrix64:
    """Return system⁻¹·right, (m, k); the memory of ``system`` (m, m) is used up."""
    try:
        return np.asarray(np.linalg.solve(system, right))
    except np.linalg.LinAlgError:
        raise InputError(SINGULAR) from None


def within_trace(rows: Matrix, labels: RowLabels, C: int) -> float:
    """Return the trace of Σω(u − μ)(u − μ)ᵀ of rows (m, D) about their class means."""
    selection = class_selection(labels.label, labels.weight, C)
    weight = selection.sum(axis=1)
    sums = product(selection, rows.astype(np.float64))
    squares = np.einsum("md,md->m", rows, rows, dtype=np.float64)
    known = weight > 0
    return float(
        labels.weight @ squares - (np.einsum("cd,cd->c", sums, sums)[known] / weight[known]).sum()
    )


def row_space(
    fixed: Matrix64,
    ridge: float,
    rows: Matrix,
    source_means: Matrix64,
    *,
    prior_count: float,
    total: float,
) -> RowSpace:
    """Factor K = ``fixed`` + ridge·I (D, D; lower triangle, overwritten) and project the task's rows (m, D) on it."""
    fixed[np.diag_indices_from(fixed)] += ridge
    lower = factor(fixed)
    V = np.vstack([rows.astype(np.float64), source_means])
    projected = forward(lower, V.T)
    return RowSpace(lower, projected, gram(projected), len(rows), prior_count, total)
