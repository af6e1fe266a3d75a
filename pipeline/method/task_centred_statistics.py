"""The released code's statistics: running means from a warm start, each task's rows centred on them.

Their update function centres whatever batch it is given on the mean so far, so that its scatter depends on the
batching; their program calls it once per task, with all rows of the task, and so does this. The scatter is never
divided. While the tasks have fewer rows than features it is kept as its rows (`row_scatter`): at the paper's D = 6000
that is most of the small benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.method.class_statistics import class_selection
from pipeline.method.kernel_rows import deviations_of
from pipeline.method.row_reduction import RowReduction, reduce_here
from pipeline.method.row_scatter import RowScatter
from pipeline.method.rows import Matrix64, Vector64
from pipeline.method.task_statistics import LabelledTask, sum_rows
from pipeline.method.within_scatter import DenseScatter, Scatter


@dataclass(frozen=True, eq=False)
class TaskCentredStatistics:
    """Running means with counts and a scatter, see `Statistics` for the methods."""

    class_means: Matrix64  # (K, D) less the pivot; zero where a class has no count
    count: Vector64  # (K,) weight of each class so far, the warm start's included
    # (D, D) Σω(δ − m)(δ − m)ᵀ about the running means m after each task: the lower triangle, or the rows that span it
    scatter: Matrix64 | RowScatter
    total: float = 0.0  # Σω of the rows so far

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_here) -> TaskCentredStatistics:
        """Return the statistics with all rows of a task added at once."""
        means, count = self._start(task)
        grown = self._grown_rows(task, means, count)
        if grown is not None:
            scatter: Matrix64 | RowScatter = grown
        else:
            added = sum_rows(task.basis, task.rows, len(means), "float64", reduce_rows)
            _move(means, count, added.sums, added.weight)
            scatter = added.scatter_about(means)
            dense = self.scatter.dense() if isinstance(self.scatter, RowScatter) else self.scatter
            scatter += dense
        total = float(task.rows.weights.sum() * len(task.rows.views))
        return TaskCentredStatistics(means, count, scatter, self.total + total)

    def _start(self, task: LabelledTask) -> tuple[Matrix64, Vector64]:
        """Return the means (K, D) and counts (K,) before the task's rows: new classes start from the prior."""
        known, D = self.class_means.shape
        K = max(known, int(task.classes.max()) + 1)
        means, count = np.zeros((K, D)), np.zeros(K)
        means[:known], count[:known] = self.class_means, self.count
        if task.prior_means is not None:
            new = count[task.classes] == 0
            means[task.classes[new]] = task.prior_means[new]
            count[task.classes[new]] = task.prior_count
        return means, count

    def _grown_rows(self, task: LabelledTask, means: Matrix64, count: Vector64) -> RowScatter | None:
        """Return the scatter as rows with the task's added, or None where the D×D form is better.

        ``means`` and ``count`` are moved by the task's rows if it is not None.
        """
        views = list(task.rows.views.values())
        n = len(task.rows)
        if not isinstance(self.scatter, RowScatter) or not self.scatter.has_room(n * len(views)):
            return None
        everything = np.arange(n)
        features = [deviations_of(task.basis, view, everything) for view in views]
        rows = np.concatenate(features, dtype=np.float64)
        labels, weights = (np.tile(task.rows.labels, len(views)), np.tile(task.rows.weights, len(views)))
        selection = class_selection(labels, weights, len(count))
        new_means, new_count = means.copy(), count.copy()
        _move(new_means, new_count, selection @ rows, selection.sum(axis=1))
        grown = self.scatter.grown(np.sqrt(weights)[:, None] * (rows - new_means[labels]))
        if grown is not None:
            means[:], count[:] = new_means, new_count
        return grown

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


def _move(means: Matrix64, count: Vector64, sums: Matrix64, weight: Vector64) -> None:
    """Move running means (K, D) with their counts (K,) by Σωδ (K, D) and Σω (K,), in place."""
    moved = weight > 0
    total = (count + weight)[moved, None]
    means[moved] = (count[moved, None] * means[moved] + sums[moved]) / total
    count += weight


def empty_task_centred(D: int, ridge: float | None) -> TaskCentredStatistics:
    """Return the task-centred statistics of no task; kept as rows if nothing but a known ``ridge`` will be added."""
    scatter = RowScatter(D, (), ridge) if ridge else np.zeros((D, D), order="F")
    return TaskCentredStatistics(np.zeros((0, D)), np.zeros(0), scatter)
