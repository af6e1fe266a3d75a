"""Accumulate statistics over a sequence of tasks, in three kinds with the same methods.

Each kind is a column of the table in docs/method.md; `empty_statistics` selects it:

- `ExactStatistics`: additive sums (``+``), the default;
- `PrintedStatistics`: eqs. (16) and (17) as printed;
- `TaskCentredStatistics`: as in the released code.

`update` returns new statistics with a task added. `within` returns a new object, which `kernel_lda.solve` may
overwrite. Everything is in deviation coordinates, δ = z − pivot.
"""

import math
import operator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pipeline.errors import InputError
from pipeline.method import class_statistics
from pipeline.method.class_statistics import ClassStatistics
from pipeline.method.kernel_rows import row_deviations
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import (
    BLOCK_IMAGES,
    LabelledRows,
    Labels,
    Matrix64,
    RowReduction,
    Vector64,
    reduce_locally,
    row_blocks,
)
from pipeline.method.variants import Arithmetic, MethodOptions
from pipeline.method.within_scatter import ROWS, DenseScatter, RowScatter, Scatter


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """Labelled rows of a task, for adding to statistics."""

    basis: Basis
    rows: LabelledRows  # the views to add, with labels among ``classes``
    classes: Labels  # (c,) classes of the task
    prior_means: Matrix64 | None = None  # (c, D) prior means of the classes, minus the pivot
    prior_count: float = 0.0  # number of rows that each prior mean counts as


@dataclass(frozen=True, eq=False)
class ExactStatistics:
    """Additive sums, with a separate prior for the class means.

    Any order of tasks, batching or merging gives the same means and scatter, and a class may return in a later task.
    The prior of a class enters once, however often its rows come.
    """

    rows: ClassStatistics  # sums over all rows, about the pivot
    prior_means: Matrix64  # (K, D) zero for a class without a prior
    prior_count: Vector64  # (K,) number of rows that the prior mean of each class counts as
    arithmetic: Arithmetic = "float32"  # of the products; sums are always float64

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_locally) -> "ExactStatistics":
        """Return the statistics with a task added."""
        K = max(self.rows.C, int(task.classes.max()) + 1)
        added = sum_rows(task.basis, task.rows, K, self.arithmetic, reduce_rows)
        added += self.rows  # in place, to avoid a third D×D matrix
        updated = self._with_rows(added)
        if task.prior_means is not None:
            updated.prior_means[task.classes] = task.prior_means
            updated.prior_count[task.classes] = task.prior_count
        return updated

    def relabelled(self, task: LabelledTask, added: "ExactStatistics", weights: Vector64) -> "ExactStatistics":
        """Return the result of `update`, given statistics in which the same rows were ``added`` under other labels.

        The products in ``added``, which is overwritten, are reused and corrected for rows whose earlier weight, in
        ``weights`` (n,), differs. From the second round of relabelling on, these are a few per cent of the rows.
        """
        K = added.rows.C
        start = self.rows.grown(K, added.rows.scatter)
        return replace(added, rows=sum_part(Summation(task.basis, K, self.arithmetic), task.rows, start, weights))

    def __add__(self, other: "ExactStatistics") -> "ExactStatistics":
        """Merge with the statistics of other rows; if both have a prior for a class, keep that of ``other``."""
        merged, known = self._with_rows(self.rows + other.rows), np.flatnonzero(other.prior_count)
        merged.prior_means[known], merged.prior_count[known] = other.prior_means[known], other.prior_count[known]
        return merged

    def _with_rows(self, rows: ClassStatistics) -> "ExactStatistics":
        """Return the statistics of these rows with a copy of the prior; additional classes have none."""
        new = rows.C - len(self.prior_count)
        prior_means, prior_count = np.pad(self.prior_means, ((0, new), (0, 0))), np.pad(self.prior_count, (0, new))
        return ExactStatistics(rows, prior_means, prior_count, self.arithmetic)

    def means(self) -> Matrix64:
        """Return the class means (Σωδ + count·prior) / (Σω + count), (K, D); NaN without rows or prior."""
        weight = self.weight()
        sums = self.rows.sums + self.prior_count[:, None] * self.prior_means
        return np.asarray(sums / np.where(weight > 0, weight, np.nan)[:, None])

    def weight(self) -> Vector64:
        """Return the weight Σω + count of each class, (K,)."""
        return self.rows.weight + self.prior_count

    def within(self) -> DenseScatter:
        """Return the scatter about the class means of the rows, ignoring the prior."""
        return self.rows.within()


@dataclass(frozen=True, eq=False)
class PrintedStatistics:
    """Eqs. (16) and (17) as printed: the mean (1/n) Σωz, and a running covariance that mixes N and Σω.

    (16) is not linear in deviations: it shrinks z itself towards zero, so the pivot is needed. The paper starts from
    zeros and has no prior. Its equations do not define the update of a returning class.
    """

    pivot: Vector64  # (D,)
    class_means: Matrix64  # (K, D) minus the pivot
    A: Matrix64  # (D, D) the running covariance, lower triangle
    rows: float = 0.0  # N so far
    total: float = 0.0  # Σω so far

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_locally) -> "PrintedStatistics":
        """Return the statistics with a task added, class by class."""
        means = np.full((int(task.classes.max()) + 1, len(self.pivot)), np.nan)
        means[: len(self.class_means)] = self.class_means
        rows, total, factors = self.rows, self.total, np.zeros(len(means))
        views, labels, weights = len(task.rows.views), task.rows.labels, task.rows.weights
        n, weight = views * np.bincount(labels, minlength=len(means)), views * np.bincount(labels, weights, len(means))
        present = task.classes[n[task.classes] > 0]
        for c in present:
            rows, total = rows + n[c], total + weight[c]
            if total <= 1:
                raise InputError("eq. (17) divides by Σω − 1: the rows have too little weight")
            factors[c] = rows / (total - 1)
        if not len(present):
            return PrintedStatistics(self.pivot, means, self.A, rows, total)
        # (17) multiplies A by N before / N after at every class. After all N rows, class c is in A with the factor
        # N_c / (N (Σω_c − 1)), with N_c and Σω_c counted up to c: one sum over all classes, weighted by these factors
        factors /= rows
        weighted = replace(task.rows, weights=factors[labels] * weights)
        s = sum_rows(task.basis, weighted, len(means), "float64", reduce_rows)
        # (16): (1/n) Σωz = (Σωδ + Σω·pivot)/n, here minus the pivot
        sums = s.sums[present] / factors[present, None] + weight[present, None] * self.pivot
        means[present] = sums / n[present, None] - self.pivot
        A = s.scatter_about(means)
        A += self.rows / rows * self.A
        return PrintedStatistics(self.pivot, means, A, rows, total)

    def means(self) -> Matrix64:
        """Return the class means minus the pivot, (K, D)."""
        return self.class_means

    def weight(self) -> Vector64:
        """Return ones, (K,): the printed equations keep no class weights."""
        return np.ones(len(self.class_means))

    def within(self) -> DenseScatter:
        """Return A, which is already a covariance."""
        return DenseScatter(self.A.copy(order="F"), total=1.0, degrees=self.rows)


@dataclass(frozen=True, eq=False)
class TaskCentredStatistics:
    """Statistics of the released code: running means with a warm start, on which the rows of each task are centred.

    The authors' update function centres each batch on the means so far, so its scatter depends on the batching. Their
    program calls it once per task with all rows of the task, which is reproduced here. The scatter is never divided.
    While the tasks have fewer rows than features, it is kept as rows (`RowScatter`): at the paper's D = 6000, for most
    of the small benchmarks.
    """

    class_means: Matrix64  # (K, D) minus the pivot; zero for a class without a count
    count: Vector64  # (K,) weight of each class so far, including the warm start
    # (D, D) Σω(δ − m)(δ − m)ᵀ about the running means m after each task, as a lower triangle or as rows
    scatter: Matrix64 | RowScatter
    total: float = 0.0  # Σω of the rows so far

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_locally) -> "TaskCentredStatistics":
        """Return the statistics with all rows of a task added at once."""
        means, count = self._start(task)
        views, n = list(task.rows.views.values()), len(task.rows)
        total = self.total + float(task.rows.weights.sum() * len(views))
        if isinstance(self.scatter, RowScatter) and self.scatter.has_room(n * len(views)):
            index = np.arange(n)
            rows = np.concatenate([row_deviations(task.basis, view, index) for view in views], dtype=np.float64)
            labels, weights = np.tile(task.rows.labels, len(views)), np.tile(task.rows.weights, len(views))
            selection: Matrix64 = np.eye(len(count))[:, labels] * weights
            moved, weight = _moved(means, count, selection @ rows, selection.sum(axis=1))
            grown = self.scatter.grown(np.sqrt(weights)[:, None] * (rows - moved[labels]))
            if grown is not None:
                return TaskCentredStatistics(moved, weight, grown, total)
        added = sum_rows(task.basis, task.rows, len(means), "float64", reduce_rows)
        moved, weight = _moved(means, count, added.sums, added.weight)
        scatter = added.scatter_about(moved)
        scatter += self.scatter.dense() if isinstance(self.scatter, RowScatter) else self.scatter
        return TaskCentredStatistics(moved, weight, scatter, total)

    def _start(self, task: LabelledTask) -> tuple[Matrix64, Vector64]:
        """Return the means (K, D) and counts (K,) before the task; new classes start from the prior."""
        new = max(0, int(task.classes.max()) + 1 - len(self.count))
        means, count = np.pad(self.class_means, ((0, new), (0, 0))), np.pad(self.count, (0, new))
        if task.prior_means is not None:
            unseen = count[task.classes] == 0
            means[task.classes[unseen]] = task.prior_means[unseen]
            count[task.classes[unseen]] = task.prior_count
        return means, count

    def means(self) -> Matrix64:
        """Return the class means minus the pivot, (K, D); NaN for a class without a count."""
        return np.where((self.count > 0)[:, None], self.class_means, np.nan)

    def weight(self) -> Vector64:
        """Return the weight of each class, (K,), including the warm start."""
        return self.count

    def within(self) -> Scatter:
        """Return the scatter, dense or as rows."""
        if isinstance(self.scatter, RowScatter):
            return self.scatter
        return DenseScatter(self.scatter.copy(order="F"), self.total, self.total)


def _moved(means: Matrix64, count: Vector64, sums: Matrix64, weight: Vector64) -> tuple[Matrix64, Vector64]:
    """Return running means (K, D) and counts (K,) updated with Σωδ (K, D) and Σω (K,) of new rows."""
    total = count + weight
    moved = (count[:, None] * means + sums) / np.where(total > 0, total, 1.0)[:, None]
    return np.where((weight > 0)[:, None], moved, means), total


Statistics = ExactStatistics | PrintedStatistics | TaskCentredStatistics


def empty_statistics(basis: Basis, options: MethodOptions, *, source: bool = False) -> Statistics:
    """Return empty statistics of the kind that the options select.

    For the source, the printed equations (9), (10) agree with the exact statistics: a running average is a covariance.
    """
    D, ridge = basis.width, options.source_ridge if source else options.ridge
    means, count, scatter = np.zeros((0, D)), np.zeros(0), np.zeros((D, D), order="F")
    if options.statistics == "printed" and not source:
        return PrintedStatistics(basis.pivot, means, scatter)
    if options.statistics == "task_centred":
        only_ridge = options.ridge_kind == "absolute" and not (options.divide_scatter or options.source_covariance)
        return TaskCentredStatistics(means, count, RowScatter(D, (), ridge) if only_ridge and ridge else scatter)
    return ExactStatistics(class_statistics.zeros(0, D), means, count, options.arithmetic)


class Summation(NamedTuple):
    """Arguments shared by all parts of a sum."""

    basis: Basis
    C: int  # number of classes
    arithmetic: Arithmetic


def sum_rows(
    basis: Basis,
    rows: LabelledRows,
    C: int,
    arithmetic: Arithmetic = "float32",
    reduce_rows: RowReduction = reduce_locally,
) -> ClassStatistics:
    """Return the statistics of all views of labelled rows with labels 0 to C − 1."""
    statistics: ClassStatistics = reduce_rows(sum_part, Summation(basis, C, arithmetic), rows, operator.add)
    return statistics


def sum_part(
    common: Summation, rows: LabelledRows, start: ClassStatistics | None = None, in_scatter: Vector64 | None = None
) -> ClassStatistics:
    """Return the statistics of a part of the rows, added in place to ``start``; see `ClassStatistics.update`."""
    views = list(rows.views.values())
    # a power of two divides `BLOCK_IMAGES`, so ranges of rows are split into the same blocks as all rows
    images = 2 ** int(math.log2(max(1, min(BLOCK_IMAGES, ROWS // len(views)))))
    statistics = class_statistics.zeros(common.C, common.basis.width) if start is None else start
    for index in row_blocks(len(rows), images):
        # all views in one product: each product takes a pass over the D×D sums, however few rows it has
        features = [row_deviations(common.basis, view, index) for view in views]
        z = np.concatenate(features, dtype=common.arithmetic)
        part = rows.labels[index]
        labels = np.tile(part, (len(views), *[1] * (part.ndim - 1)))
        earlier = None if in_scatter is None else np.tile(in_scatter[index], len(views))
        statistics.update(z, labels, np.tile(rows.weights[index], len(views)), earlier)
    return statistics
