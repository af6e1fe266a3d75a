"""The two kinds of statistics besides the exact ones, and which kind the method's options ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pipeline.errors import InputError
from pipeline.method.kernel_rows import deviations_of
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction, reduce_here
from pipeline.method.row_scatter import RowScatter
from pipeline.method.rows import Matrix64, Vector64
from pipeline.method.task_statistics import LabelledTask, Statistics, empty_exact, sum_rows
from pipeline.method.variants import MethodOptions
from pipeline.method.within_scatter import DenseScatter, Scatter


@dataclass(frozen=True, eq=False)
class TaskCentredStatistics:
    """The released code's statistics: running means from a warm start, each task's rows centred on them.

    Their update function centres whatever batch it is given on the mean so far, so that its scatter depends on the
    batching; their program calls it once per task, with all rows of the task, and so does this. The scatter is never
    divided. While the tasks have fewer rows than features it is kept as its rows (`row_scatter`): at the paper's
    D = 6000 that is most of the small benchmarks. See `Statistics` for the methods.
    """

    class_means: Matrix64  # (K, D) less the pivot; zero where a class has no count
    count: Vector64  # (K,) weight of each class so far, the warm start's included
    # (D, D) Σω(δ − m)(δ − m)ᵀ about the running means m after each task: the lower triangle, or the rows that span it
    scatter: Matrix64 | RowScatter
    total: float = 0.0  # Σω of the rows so far

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_here) -> TaskCentredStatistics:
        """Return the statistics with all rows of a task added at once."""
        means, count = self._start(task)
        views, n = list(task.rows.views.values()), len(task.rows)
        total = self.total + float(task.rows.weights.sum() * len(views))
        if isinstance(self.scatter, RowScatter) and self.scatter.has_room(n * len(views)):
            everything = np.arange(n)
            rows = np.concatenate([deviations_of(task.basis, view, everything) for view in views], dtype=np.float64)
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
        """Return the means (K, D) and counts (K,) before the task's rows: new classes start from the prior."""
        new = max(0, int(task.classes.max()) + 1 - len(self.count))
        means, count = np.pad(self.class_means, ((0, new), (0, 0))), np.pad(self.count, (0, new))
        if task.prior_means is not None:
            first = count[task.classes] == 0
            means[task.classes[first]] = task.prior_means[first]
            count[task.classes[first]] = task.prior_count
        return means, count

    def means(self) -> Matrix64:
        """Return the class means less the pivot, (K, D); NaN for a class without a count."""
        return np.where((self.count > 0)[:, None], self.class_means, np.nan)

    def weight(self) -> Vector64:
        """Return the weight of each class, (K,), the warm start's included."""
        return self.count

    def within(self) -> Scatter:
        """Return the scatter in the form in which it is kept."""
        if isinstance(self.scatter, RowScatter):
            return self.scatter
        return DenseScatter(self.scatter.copy(order="F"), self.total, self.total)


def _moved(means: Matrix64, count: Vector64, sums: Matrix64, weight: Vector64) -> tuple[Matrix64, Vector64]:
    """Return running means (K, D) and their counts (K,) with Σωδ (K, D) and Σω (K,) of more rows."""
    total = count + weight
    moved = (count[:, None] * means + sums) / np.where(total > 0, total, 1.0)[:, None]
    return np.where((weight > 0)[:, None], moved, means), total


def empty_task_centred(D: int, ridge: float | None) -> TaskCentredStatistics:
    """Return the task-centred statistics of no task; kept as rows if nothing but a known ``ridge`` will be added."""
    scatter = RowScatter(D, (), ridge) if ridge else np.zeros((D, D), order="F")
    return TaskCentredStatistics(np.zeros((0, D)), np.zeros(0), scatter)


@dataclass(frozen=True, eq=False)
class PrintedStatistics:
    """Eqs. (16) and (17) as printed: the mean (1/n) Σωz, and a running covariance that mixes N and Σω.

    (16) is not linear in deviations: it shrinks z itself towards zero, so the pivot is needed. The paper
    starts from zeros and has no prior. Its equations do not say what a class that comes back would do.
    """

    pivot: Vector64  # (D,)
    class_means: Matrix64  # (K, D) less the pivot
    A: Matrix64  # (D, D) the running covariance, lower triangle
    rows: float = 0.0  # N so far
    total: float = 0.0  # Σω so far

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_here) -> PrintedStatistics:
        """Return the statistics with a task added, class by class."""
        means = np.full((int(task.classes.max()) + 1, len(self.pivot)), np.nan)
        means[: len(self.class_means)] = self.class_means
        rows, total, factors = self.rows, self.total, np.zeros(len(means))
        views, labels, weights = len(task.rows.views), task.rows.labels, task.rows.weights
        n, weight = views * np.bincount(labels, minlength=len(means)), views * np.bincount(labels, weights, len(means))
        met = task.classes[n[task.classes] > 0]
        for c in met:
            rows, total = rows + n[c], total + weight[c]
            if total <= 1:
                raise InputError("eq. (17) divides by Σω − 1: the rows have too little weight for it")
            factors[c] = rows / (total - 1)
        if not len(met):
            return PrintedStatistics(self.pivot, means, self.A, rows, total)
        # (17) multiplies A by N before / N after at every class, so that after the last of N rows class c is in A by
        # N_c / (N (Σω_c − 1)), its own N and Σω so far: one sum over all classes, weighted by that
        factors /= rows
        weighted = replace(task.rows, weights=factors[labels] * weights)
        s = sum_rows(task.basis, weighted, len(means), "float64", reduce_rows)
        # (16): (1/n) Σωz = (Σωδ + Σω·pivot)/n, here less the pivot
        sums = s.sums[met] / factors[met, None] + weight[met, None] * self.pivot
        means[met] = sums / n[met, None] - self.pivot
        A = s.scatter_about(means)
        A += self.rows / rows * self.A
        return PrintedStatistics(self.pivot, means, A, rows, total)

    def means(self) -> Matrix64:
        """Return the class means less the pivot, (K, D)."""
        return self.class_means

    def weight(self) -> Vector64:
        """Return ones, (K,): the printed equations keep no weight of a class."""
        return np.ones(len(self.class_means))

    def within(self) -> DenseScatter:
        """Return A, which is a covariance as it stands."""
        return DenseScatter(self.A.copy(order="F"), total=1.0, degrees=self.rows)


def empty_printed(basis: Basis) -> PrintedStatistics:
    """Return the printed statistics of no task."""
    D = basis.D
    return PrintedStatistics(basis.pivot, np.zeros((0, D)), np.zeros((D, D), order="F"))


def empty_statistics(basis: Basis, options: MethodOptions, *, source: bool = False) -> Statistics:
    """Return the statistics of no task.

    Parameters
    ----------
    source : bool
        For the source. There the printed equations (9), (10) are the exact ones: a running average is a covariance.
    """
    if options.statistics == "task_centred":
        regularisation = options.regularisation(source=source)
        as_rows = regularisation.only_ridge and not options.source_covariance
        return empty_task_centred(basis.width, regularisation.ridge if as_rows else None)
    if options.statistics == "printed" and not source:
        return empty_printed(basis)
    return empty_exact(basis.width, options.arithmetic)
