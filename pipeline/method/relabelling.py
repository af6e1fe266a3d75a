"""Rounds of relabelling in the space of a task's rows: one factorisation for all rounds and the final classifier.

Between two rounds only the labels and weights of the current task's m rows change. With everything else fixed,

    K = S_source + S_earlier + κI,      K + UᵀQU,      Q = diag(ω) − Σ_c ω_c ω_cᵀ / Σω_c

is the regularised scatter of a round, U (m, D) the task's rows and Q (m, m) what a round's labels make of them (ω_c is
ω on the rows of class c, zero elsewhere). Every mean of the task is a combination of rows of V, U with the source's
means below it. So the scores of U need the Gram matrix G = V K⁻¹ Vᵀ alone:

    U (K + UᵀQU)⁻¹ Vᵀ = (I + G_UU Q)⁻¹ G_UV                                    (Woodbury)

and a round costs m³ instead of D³/3 + m D². The classifier after the last round comes from the same factor. It is the
same arithmetic, in another order: tests hold it to the general path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from pipeline.errors import InputError
from pipeline.method.blas_products import gram, product
from pipeline.method.class_statistics import Labels, Matrix64, Vector64
from pipeline.method.kernel_lda import SINGULAR, Classifier, log_priors
from pipeline.method.moments import Moments
from pipeline.method.source_model import class_priors, filled
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import Matrix


def cheaper(m: int, D: int, rounds: int) -> bool:
    """Is the row space the cheaper place for so many rounds? By multiplications of both ways."""
    here = D * D * m + m * m * D + (rounds + 1) * 2 / 3 * m**3
    general = rounds * (D**3 / 3 + m * D * D / 2)
    return here < general


@dataclass(frozen=True, eq=False)
class RowLabels:
    """A round's labels and weights (m,) of every view of every image; classes count from the task's first."""

    label: Labels
    weight: Vector64


@dataclass(frozen=True, eq=False)
class RowSpace:
    """One member's task in row space.

    lower: (D, D) Cholesky factor of K. projected: L⁻¹Vᵀ, (D, m + C). gram: (m + C, m + C). prior_count: of the source's
    means. total: Σω of source and earlier tasks.
    """

    lower: Matrix64
    projected: Matrix64
    gram: Matrix64
    rows: int
    prior_count: float
    total: float

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

    def scores(self, labels: RowLabels, options: MethodOptions) -> Matrix64:
        """Return F (m, C) of the task's own rows over its own classes, under a round's labels."""
        means, weight = self.task_means(labels)
        m, total = self.rows, self.total_weight(labels)
        projected = product(self.gram, means)  # V K⁻¹ m_c, (m + C, C)
        mixed = _solved(self._system(labels), projected[:m])  # U A⁻¹ m_c, (m, C)
        # m_cᵀA⁻¹m_c = m_cᵀK⁻¹m_c − (Q U K⁻¹m_c)ᵀ(U A⁻¹ m_c)
        own = np.einsum("vc,vc->c", means, projected)
        own -= np.einsum("mc,mc->c", self._weighted(labels, projected[:m]), mixed)
        scores = total * (mixed - 0.5 * own)
        if options.class_priors == "counted":
            scores += log_priors(np.maximum(weight, 1.0), len(weight))
        return np.asarray(scores)

    def classifier(
        self, labels: RowLabels, moments: Moments, source_means: Matrix64, options: MethodOptions
    ) -> Classifier:
        """Return the classifier of all classes seen; ``moments`` are those after the round's labels are folded in."""
        m, total = self.rows, self.total_weight(labels)
        means = filled(moments.means, source_means)
        half = scipy.linalg.solve_triangular(self.lower, means.T, lower=True, check_finite=False)
        rows = self.projected[:, :m]
        # (K + UᵀQU)⁻¹ = K⁻¹ − K⁻¹Uᵀ (I + QG)⁻¹ Q U K⁻¹, and (I + QG)⁻¹Q = Q (I + GQ)⁻¹
        inner = self._weighted(labels, _solved(self._system(labels), product(rows.T, half)))
        half -= product(rows, inner)
        W = total * scipy.linalg.solve_triangular(
            self.lower, half, lower=True, trans="T", check_finite=False
        )
        b = -0.5 * np.einsum("cd,dc->c", means, W)  # eq. (12)
        priors = class_priors(moments, options)
        return Classifier(W, b if priors is None else b + log_priors(priors, len(means)))

    def _system(self, labels: RowLabels) -> Matrix64:
        """Return I + GQ, (m, m)."""
        m = self.rows
        system = self._weighted(labels, self.gram[:m, :m]).T  # (QG)ᵀ = GQ: both are symmetric
        system[np.diag_indices(m)] += 1.0
        return system

    def _weighted(self, labels: RowLabels, matrix: Matrix64) -> Matrix64:
        """Return Q·matrix (m, k): weighted rows less their class's weighted mean."""
        C = self.gram.shape[0] - self.rows
        one_hot = np.zeros((C, self.rows))
        one_hot[labels.label, np.arange(self.rows)] = labels.weight
        weight = one_hot.sum(axis=1)
        mean = product(one_hot, matrix) / np.where(weight > 0, weight, 1.0)[:, None]
        return np.asarray(labels.weight[:, None] * (matrix - mean[labels.label]))


def _solved(system: Matrix64, right: Matrix64) -> Matrix64:
    """Return system⁻¹·right, (m, k); the memory of ``system`` (m, m) is used up."""
    _, _, solved, failed = lapack.dgesv(system, right, overwrite_a=True)
    if failed:
        raise InputError(SINGULAR)
    return np.asarray(solved)


def within_trace(rows: Matrix, labels: RowLabels, C: int) -> float:
    """Return the trace of Σω(u − μ)(u − μ)ᵀ of rows (m, D) about their class means."""
    one_hot = np.zeros((C, len(rows)))
    one_hot[labels.label, np.arange(len(rows))] = labels.weight
    weight = one_hot.sum(axis=1)
    sums = product(one_hot, rows.astype(np.float64))
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
    try:
        lower = scipy.linalg.cholesky(fixed, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        raise InputError(SINGULAR) from None
    V = np.vstack([rows.astype(np.float64), source_means])
    projected = scipy.linalg.solve_triangular(lower, V.T, lower=True, check_finite=False)
    return RowSpace(lower, projected, gram(projected), len(rows), prior_count, total)
