"""Eqs. (16) and (17) as printed: the mean (1/n) Σωz, and a running covariance that mixes N and Σω.

(16) is not linear in deviations: it shrinks z itself towards zero, so the pivot is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pipeline.errors import InputError
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction, reduce_here
from pipeline.method.rows import Matrix64, Vector64
from pipeline.method.task_statistics import LabelledTask, sum_rows
from pipeline.method.within_scatter import DenseScatter


@dataclass(frozen=True, eq=False)
class PrintedStatistics:
    """The paper's running mean and covariance, see `Statistics` for the methods.

    The paper starts from zeros and has no prior. Its equations do not say what a class that comes back would do.
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
        A, rows, total = self.A, self.rows, self.total
        for c in task.classes:
            members = task.rows.take(np.flatnonzero(task.rows.labels == c))
            n = len(members.labels) * len(members.views)
            if not n:
                continue
            members = replace(members, labels=np.zeros(len(members.labels), np.intp))
            s = sum_rows(task.basis, members, 1, "float64", reduce_rows)
            # (16): (1/n) Σωz = (Σωδ + Σω·pivot)/n, here less the pivot
            means[c] = (s.sums[0] + s.total_weight * self.pivot) / n - self.pivot
            before, rows, total = rows, rows + n, total + s.total_weight
            if total <= 1:
                raise InputError("eq. (17) divides by Σω − 1: the rows have too little weight for it")
            A = before / rows * A + s.scatter_about(means[c][None]) / (total - 1)  # (17)
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
