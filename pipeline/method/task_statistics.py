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
    images: LabelledRows  # the views to add, with labels among ``classes``
    classes: Labels  # (c,) classes of the task
    prior_means: Matrix64 | None = None  # (c, D) prior means of the classes, minus the pivot
    prior_count: float = 0.0  # number of rows that each prior mean counts as


@dataclass(frozen=True, eq=False)
class ExactStatistics:
    """Additive sums, with a separate prior for the class means.

    Any order of tasks, batching or merging gives the same means and scatter, and a class may return in a later task.
    The prior of a class enters once, however often its rows come.
    """

    totals: ClassStatistics  # sums over all rows, about the pivot
    prior_means: Matrix64  # (K, D) zero for a class without a prior
    prior_count: Vector64  # (K,) number of rows that the prior mean of each class counts as
    arithmetic: Arithmetic = "float32"  # of the products; sums are always float64

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_locally) -> "ExactStatistics":
        """Return the statistics with a task added."""
        K = max(self.totals.C, int(task.classes.max()) + 1)
        added = sum_rows(task.basis, task.images, K, self.arithmetic, reduce_rows)
        added += self.totals  # in place, to avoid a third D×D matrix
        updated = self._with_totals(added)
        if task.prior_means is not None:
            updated.prior_means[task.classes] = task.prior_means
            updated.prior_count[task.classes] = task.prior_count
        return updated

    def relabelled(self, task: LabelledTask, added: "ExactStatistics", weights: Vector64) -> "ExactStatistics":
        """Like `update`, but faster: ``added`` are the statistics after adding the same rows under their former labels.

        Only rows whose weight differs from their former one, in ``weights`` (n,), are multiplied again: a few per cent
        of the rows from the second round of relabelling on. ``added`` is overwritten.
        """
        K = added.totals.C
        start = self.totals.grown(K, added.totals.scatter)
        settings = SumSettings(task.basis, K, self.arithmetic)
        return replace(added, totals=sum_part(settings, task.images, start, weights))

    def __add__(self, other: "ExactStatistics") -> "ExactStatistics":
        """Merge with the statistics of other rows; if both have a prior for a class, keep that of ``other``."""
        merged, known = self._with_totals(self.totals + other.totals), np.flatnonzero(other.prior_count)
        merged.prior_means[known], merged.prior_count[known] = other.prior_means[known], other.prior_count[known]
        return merged

    def _with_totals(self, totals: ClassStatistics) -> "ExactStatistics":
        """Return the statistics with other totals and a copy of the prior; additional classes have no prior."""
        new = totals.C - len(self.prior_count)
        prior_means, prior_count = np.pad(self.prior_means, ((0, new), (0, 0))), np.pad(self.prior_count, (0, new))
        return ExactStatistics(totals, prior_means, prior_count, self.arithmetic)

    def means(self) -> Matrix64:
        """Return the class means (Σωδ + count·prior) / (Σω + count), (K, D); NaN without rows or prior."""
        weight = self.weight()
        sums = self.totals.sums + self.prior_count[:, None] * self.prior_means
        return np.asarray(sums / np.where(weight > 0, weight, np.nan)[:, None])

    def weight(self) -> Vector64:
        """Return the weight Σω + count of each class, (K,)."""
        return self.totals.weight + self.prior_count

    def within(self) -> DenseScatter:
        """Return the scatter about the class means of the rows, ignoring the prior."""
        return self.totals.within()


@dataclass(frozen=True, eq=False)
class PrintedStatistics:
    """Eqs. (16) and (17) as printed: the mean (1/n) Σωz, and a running covariance that mixes N and Σω.

    (16) is not linear in deviations: it shrinks z itself towards zero, so the pivot is needed. The paper starts from
    zeros and has no prior. Its equations do not define the update of a returning class.
    """

    pivot: Vector64  # (D,)
    class_means: Matrix64  # (K, D) minus the pivot
    A: Matrix64  # (D, D) the running covariance, lower triangle
    N: float = 0.0  # number of rows so far
    total: float = 0.0  # Σω so far

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_locally) -> "PrintedStatistics":
        """Return the statistics with a task added, class by class."""
        means = np.full((int(task.classes.max()) + 1, len(self.pivot)), np.nan)
        means[: len(self.class_means)] = self.class_means
        N, total, factors = self.N, self.total, np.zeros(len(means))
        views, labels, weights = len(task.images.views), task.images.labels, task.images.weights
        n, weight = views * np.bincount(labels, minlength=len(means)), views * np.bincount(labels, weights, len(means))
        present = task.classes[n[task.classes] > 0]
        for c in present:
            N, total = N + n[c], total + weight[c]
            if total <= 1:
                raise InputError("eq. (17) divides by Σω − 1: the rows have too little weight")
            factors[c] = N / (total - 1)
        if not len(present):
            return PrintedStatistics(self.pivot, means, self.A, N, total)
        # (17) multiplies A by N before / N after at every class. N_{≤c} and W_{≤c} are the number of rows and Σω up to
        # and including class c. After all N rows, the rows of class c are in A with the factor
        #     N_{≤c} / (N (W_{≤c} − 1)),
        # so A is one sum over all classes, weighted by these factors.
        factors /= N
        weighted = replace(task.images, weights=factors[labels] * weights)
        s = sum_rows(task.basis, weighted, len(means), "float64", reduce_rows)
        # (16): (1/n) Σωz = (Σωδ + Σω·pivot)/n, here minus the pivot
        sums = s.sums[present] / factors[present, None] + weight[present, None] * self.pivot
        means[present] = sums / n[present, None] - self.pivot
        A = s.scatter_about(means)
        A += self.N / N * self.A
        return PrintedStatistics(self.pivot, means, A, N, total)

    def means(self) -> Matrix64:
        """Return the class means minus the pivot, (K, D)."""
        return self.class_means

    def weight(self) -> Vector64:
        """Return ones, (K,): the printed equations keep no class weights."""
        return np.ones(len(self.class_means))

    def within(self) -> DenseScatter:
        """Return A, which is already a covariance."""
        return DenseScatter(self.A.copy(order="F"), total=1.0, degrees=self.N)


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
        views, n = list(task.images.views.values()), len(task.images)
        total = self.total + float(task.images.weights.sum() * len(views))
        if isinstance(self.scatter, RowScatter) and self.scatter.has_room(n * len(views)):
            index = np.arange(n)
            rows = np.concatenate([row_deviations(task.basis, view, index) for view in views], dtype=np.float64)
            labels, weights = np.tile(task.images.labels, len(views)), np.tile(task.images.weights, len(views))
            selection: Matrix64 = np.eye(len(count))[:, labels] * weights
            moved, weight = _moved(means, count, selection @ rows, selection.sum(axis=1))
            grown = self.scatter.grown(np.sqrt(weights)[:, None] * (rows - moved[labels]))
            if grown is not None:
                return TaskCentredStatistics(moved, weight, grown, total)
        added = sum_rows(task.basis, task.images, len(means), "float64", reduce_rows)
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


class SumSettings(NamedTuple):
    """Settings shared by all parts of a sum."""

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
    statistics: ClassStatistics = reduce_rows(sum_part, SumSettings(basis, C, arithmetic), rows, operator.add)
    return statistics


def sum_part(
    common: SumSettings, rows: LabelledRows, start: ClassStatistics | None = None, in_scatter: Vector64 | None = None
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
