"""The statistics that a sequence of tasks leaves behind: `update`, `means`, `weight`, `within`; exact ones add (``+``).

Three kinds have the same methods, one for each column of the table in docs/method.md:

- `ExactStatistics`: sums that add (this module), the default;
- `PrintedStatistics`: eqs. (16) and (17) to the letter, in `statistics_kinds`;
- `TaskCentredStatistics`: the released code's, in `statistics_kinds`.

`kernel_lda.solve` makes a classifier of the means and the within-class scatter. Everything is in deviation coordinates,
δ = z − pivot.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from pipeline.method import class_statistics
from pipeline.method.class_statistics import ClassStatistics
from pipeline.method.kernel_rows import deviations_of
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction, reduce_here
from pipeline.method.rows import BLOCK_IMAGES, LabelledRows, Labels, Matrix64, Vector64, row_blocks
from pipeline.method.within_scatter import ROWS, DenseScatter, Scatter

Arithmetic = Literal["float32", "float64"]


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """A task's labelled rows, to be added to statistics."""

    basis: Basis
    rows: LabelledRows  # the views that enter, with labels among ``classes``
    classes: Labels  # (c,) the task's class set
    # (c, D) means, less the pivot, that the classes are expected to have
    prior_means: Matrix64 | None = None
    prior_count: float = 0.0  # number of rows that the prior means count as


class Statistics(Protocol):
    """What is known of K classes after some tasks."""

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_here) -> Statistics:
        """Return the statistics with a task added; ``self`` is not changed."""

    def means(self) -> Matrix64:
        """Return the class means less the pivot, (K, D); NaN for a class of which nothing is known."""

    def weight(self) -> Vector64:
        """Return the weight of each class, (K,), the prior's count included."""

    def within(self) -> Scatter:
        """Return the within-class scatter: a new object, that `solve` may overwrite."""


@dataclass(frozen=True, eq=False)
class ExactStatistics:
    """Sums that add, with a prior for the class means kept apart.

    These sums can be saved and continued: any order of tasks, any batching and any merge gives the same means and
    scatter, and a class may come back in a later task. A class's prior enters once, however often its rows come.
    """

    rows: ClassStatistics  # sums over all rows, about the pivot
    prior_means: Matrix64  # (K, D) zero where a class has no prior
    prior_count: Vector64  # (K,) number of rows that the prior mean of each class counts as
    # of the products; sums are float64 in both cases
    arithmetic: Arithmetic = "float32"

    def update(self, task: LabelledTask, reduce_rows: RowReduction = reduce_here) -> ExactStatistics:
        """Return the statistics with a task added, see `Statistics`."""
        K = max(self.rows.C, int(task.classes.max()) + 1)
        added = sum_rows(task.basis, task.rows, K, self.arithmetic, reduce_rows)
        added += self.rows  # in the new task's memory: no third D×D matrix
        updated = self._with_rows(added)
        if task.prior_means is not None:
            updated.prior_means[task.classes] = task.prior_means
            updated.prior_count[task.classes] = task.prior_count
        return updated

    def relabelled(self, task: LabelledTask, added: ExactStatistics, weights: Vector64) -> ExactStatistics:
        """Return what `update` does, given these statistics with the same rows ``added`` under other labels.

        Products are taken over from ``added``, which is used up; those of rows whose weight was another one then,
        ``weights`` (n,), are corrected. From the second round of relabelling on that is a few per cent of the rows.
        """
        K = added.rows.C
        onto = self.rows.grown(K, added.rows.scatter)
        summed = sum_part(Summation(task.basis, K, self.arithmetic), task.rows, onto, weights)
        return replace(added, rows=summed)

    def __add__(self, other: ExactStatistics) -> ExactStatistics:
        """Merge the statistics of other rows; where both have a prior for a class, ``other``'s is kept."""
        merged, given = self._with_rows(self.rows + other.rows), np.flatnonzero(other.prior_count)
        merged.prior_means[given], merged.prior_count[given] = other.prior_means[given], other.prior_count[given]
        return merged

    def _with_rows(self, rows: ClassStatistics) -> ExactStatistics:
        """Return the statistics of these rows with a copy of the prior, none for further classes."""
        new = rows.C - len(self.prior_count)
        prior_means, prior_count = np.pad(self.prior_means, ((0, new), (0, 0))), np.pad(self.prior_count, (0, new))
        return ExactStatistics(rows, prior_means, prior_count, self.arithmetic)

    def means(self) -> Matrix64:
        """Return (Σωδ + count·prior) / (Σω + count), (K, D), see `Statistics`."""
        weight = self.weight()
        sums = self.rows.sums + self.prior_count[:, None] * self.prior_means
        return np.asarray(sums / np.where(weight > 0, weight, np.nan)[:, None])

    def weight(self) -> Vector64:
        """Return Σω + count, (K,), see `Statistics`."""
        return self.rows.weight + self.prior_count

    def within(self) -> DenseScatter:
        """Return the scatter about the rows' own class means, whatever the prior."""
        total, degrees = self.rows.total_weight, self.rows.degrees_of_freedom()
        return DenseScatter(self.rows.within_scatter(), total, degrees)


def empty_exact(D: int, arithmetic: Arithmetic) -> ExactStatistics:
    """Return the exact statistics of no task."""
    return ExactStatistics(class_statistics.zeros(0, D), np.zeros((0, D)), np.zeros(0), arithmetic)


@dataclass(frozen=True, eq=False)
class Summation:
    """What is common to the parts of a sum: the basis, the number of classes and the arithmetic."""

    basis: Basis
    C: int
    arithmetic: Arithmetic


def sum_rows(
    basis: Basis,
    rows: LabelledRows,
    C: int,
    arithmetic: Arithmetic = "float32",
    reduce_rows: RowReduction = reduce_here,
) -> ClassStatistics:
    """Return the statistics of all views of labelled rows, labels 0 to C − 1."""
    statistics: ClassStatistics = reduce_rows(sum_part, Summation(basis, C, arithmetic), rows, operator.add)
    return statistics


def sum_part(
    common: Summation, rows: LabelledRows, onto: ClassStatistics | None = None, counted: Vector64 | None = None
) -> ClassStatistics:
    """Return the statistics of a part of the rows, added ``onto`` others in place; see `ClassStatistics.update`."""
    views = list(rows.views.values())
    # a power of two, which divides `BLOCK_IMAGES`: the blocks of a range of rows are those of the whole
    images = 2 ** int(math.log2(max(1, min(BLOCK_IMAGES, ROWS // len(views)))))
    statistics = class_statistics.zeros(common.C, common.basis.width) if onto is None else onto
    for index in row_blocks(len(rows), images):
        # all views of an image in one product: every product costs a pass over the D×D sums, whatever its rows
        features = [deviations_of(common.basis, view, index) for view in views]
        z = np.concatenate(features, dtype=common.arithmetic)
        part = rows.labels[index]
        labels = np.tile(part, (len(views), *[1] * (part.ndim - 1)))
        earlier = None if counted is None else np.tile(counted[index], len(views))
        statistics.update(z, labels, np.tile(rows.weights[index], len(views)), earlier)
    return statistics
