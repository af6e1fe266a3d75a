"""Means and one shared scatter, from one task after another: ours, the paper's, the released code's.

An accumulator folds in a task's labelled rows and yields `Moments`, which is all that a classifier needs. Three ways
to the same thing, the table of docs/method.md:

- `ExactMoments`: `ClassStatistics`; any batching and order gives the same numbers;
- `PrintedMoments`: eqs. (16) and (17) to the letter;
- `BatchCentredMoments`, in `batch_centred`: the released code's, whose scatter depends on the batching.

Tasks have disjoint classes, so a class's mean and scatter about it are final once its task is folded in: what is kept
is the means and the sum of the scatters, one D×D matrix. All are in deviation coordinates, δ = z − pivot. (16) is not
linear in them: it shrinks z itself towards 0, so that `PrintedMoments` needs the pivot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.method import class_statistics
from pipeline.method.class_statistics import ClassStatistics, Labels, Matrix64, Vector64
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_ranges import IMAGES, RowRanges, ranges_of
from pipeline.method.row_scatter import RowScatter
from pipeline.method.scatter_products import ROWS
from pipeline.method.task_features import Rows, TaskFeatures, subset
from pipeline.method.variants import Arithmetic
from pipeline.method.zero_shot import Matrix


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of C classes.

    means: (C, D) less the pivot, NaN where a class has no row. scatter: (D, D), lower triangle. weight: (C,) Σω of
    each class, priors included. total: what divides the scatter into a covariance. degrees: effective rows about the
    means. spanned: the same scatter by its rows, where it is not formed: ``scatter`` is then all NaN.
    """

    means: Matrix64
    scatter: Matrix64
    weight: Vector64
    total: float
    degrees: float
    spanned: RowScatter | None = None

    def covariance(self) -> Matrix64:
        """Return scatter / total, (D, D), lower triangle."""
        if self.total <= 0:
            raise InputError("covariance: no row has any weight")
        return np.asarray(self.scatter / self.total)

    def nested(self, D: int) -> Moments:
        """Return the moments under the first ``D`` columns of the basis: scaled sub-blocks."""
        ratio = len(self.scatter) / D  # z carries sqrt(2/D), eq. (7)
        return replace(
            self,
            means=math.sqrt(ratio) * self.means[:, :D],
            scatter=np.asfortranarray(ratio * self.scatter[:D, :D]),
        )

    def folded(self, task: Moments) -> Moments:
        """Return the moments of both; the scatters are added in the memory of ``task``'s, which is lost."""
        scatter = task.scatter
        scatter += self.scatter
        return Moments(
            means=np.vstack([self.means, task.means]),
            scatter=scatter,
            weight=np.append(self.weight, task.weight),
            total=self.total + task.total,
            degrees=self.degrees + task.degrees,
        )


def no_moments(D: int) -> Moments:
    """Return the moments of no class."""
    return Moments(np.zeros((0, D)), np.zeros((D, D), order="F"), np.zeros(0), 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """A task's rows with labels: the same labels and weights (n,) for every view of an image.

    features: of the images, by view. member: of the ensemble, which is looked at. views: that enter, in order.
    kept: (n,) which images. classes: of the task, the next ones in order. prior: their means (|classes|, D) and the
    count with which they enter.
    """

    features: TaskFeatures
    member: int
    views: Sequence[str]
    labels: Labels
    weights: Vector64
    kept: npt.NDArray[np.bool_]
    classes: Labels
    prior: tuple[Matrix64, float] | None = None

    @property
    def D(self) -> int:  # noqa: N802  the paper's name
        """Number of Fourier features."""
        return self.features.basis.D // self.features.basis.members

    def places(self, images: int) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the places (b,) of so many kept images at a time."""
        places = np.flatnonzero(self.kept)
        for start in range(0, len(places), images):
            yield places[start : start + images]

    def batches(self, images: int) -> Iterator[tuple[npt.NDArray[np.intp], Mapping[str, Matrix]]]:
        """Yield so many kept images at a time: their places (b,) and features (b, D) by view."""
        for place in self.places(images):
            yield place, {v: self.features.of(v, place, self.member) for v in self.views}

    def prior_means(self) -> tuple[Matrix64, float]:
        """Return the prior's means and count; of no prior, zeros and zero."""
        return (
            self.prior if self.prior is not None else (np.zeros((len(self.classes), self.D)), 0.0)
        )


class Accumulator(Protocol):
    """What takes tasks and yields moments."""

    def with_task(self, task: LabelledTask) -> Accumulator:
        """Return an accumulator that knows the task too; this one is left as it was."""

    def moments(self) -> Moments:
        """Return what is known so far."""


@dataclass(frozen=True, eq=False)
class ExactMoments:
    """Σωz / Σω and Σω(z−μ)(z−μ)ᵀ, by sums that add; a prior adds count·mean to a class's sums."""

    known: Moments
    arithmetic: Arithmetic = "float32"

    def with_task(self, task: LabelledTask) -> ExactMoments:
        """Fold in a task, see `Accumulator`."""
        statistics = task_statistics(task, self.arithmetic)
        means, count = task.prior_means()
        weight = statistics.weight + count
        divisor = np.where(weight > 0, weight, np.nan)
        moments = Moments(
            means=np.asarray((statistics.sums + count * means) / divisor[:, None]),
            scatter=statistics.within_scatter(
                overwrite=True
            ),  # about the rows' own means, whatever the prior
            weight=weight,
            total=statistics.total_weight,
            degrees=statistics.degrees_of_freedom(),
        )
        return replace(self, known=self.known.folded(moments))

    def moments(self) -> Moments:
        """Return the moments."""
        return self.known


def task_statistics(task: LabelledTask, arithmetic: Arithmetic) -> ClassStatistics:
    """Return the statistics of a task's rows among its own classes."""
    if task.features.elsewhere is not None and task.kept.any():
        return _statistics_elsewhere(task, arithmetic, task.features.elsewhere)
    first, basis = int(task.classes.min()), task.features.basis
    # a power of two, which divides `IMAGES`: the blocks of a range of rows are those of the whole
    images = 2 ** int(math.log2(max(1, min(IMAGES, ROWS // len(task.views)))))
    if basis.device and arithmetic == "float32":
        from pipeline.method.device_statistics import statistics_on  # torch: seconds to import

        blocks = (
            (x, task.labels[place] - first, task.weights[place])
            for place in task.places(images)
            for x in (task.features.views[view][place] for view in task.views)
        )
        return statistics_on(basis.device, basis.member(task.member), blocks, len(task.classes))
    statistics = class_statistics.zeros(len(task.classes), task.D)
    # all views of an image in one product: every product costs a pass over the D×D sums, whatever its rows
    for place, views in task.batches(images):
        rows = np.concatenate(list(views.values()), dtype=arithmetic)
        labels = np.tile(task.labels[place] - first, len(views))
        weights = np.tile(task.weights[place], len(views))
        class_statistics.add_rows(statistics, rows, labels, weights)
    return statistics


@dataclass(frozen=True, eq=False)
class _Range:
    """The images of a task that one place adds up: their rows by view, labels and weights (n,)."""

    views: Mapping[str, Rows]
    labels: Labels
    weights: Vector64


def _statistics_elsewhere(
    task: LabelledTask, arithmetic: Arithmetic, elsewhere: RowRanges
) -> ClassStatistics:
    """Return the sum of the statistics of ranges of a task's rows."""
    parts = [
        _Range(
            {view: subset(task.features.views[view], places) for view in task.views},
            task.labels[places],
            task.weights[places],
        )
        for places in ranges_of(np.flatnonzero(task.kept), elsewhere.count())
    ]
    shared = (task.features.basis, task.member, task.classes, arithmetic)
    total: ClassStatistics = elsewhere.summed(_range_statistics, shared, parts)
    return total


def _range_statistics(
    shared: tuple[Basis, int, Labels, Arithmetic], part: _Range
) -> ClassStatistics:
    basis, member, classes, arithmetic = shared
    features = TaskFeatures(basis, part.views, keep=False)
    kept = np.ones(len(part.labels), np.bool_)
    return task_statistics(
        LabelledTask(features, member, list(part.views), part.labels, part.weights, kept, classes),
        arithmetic,
    )


@dataclass(frozen=True, eq=False)
class PrintedMoments:
    """Eqs. (16) and (17) as printed: (1/n)Σωz, and a running A that mixes N and Σω.

    pivot: (D,). A: (D, D), the running covariance. rows, weight: N and Σω so far.
    """

    pivot: Vector64
    means: Matrix64
    A: Matrix64
    rows: float = 0.0
    weight: float = 0.0

    def with_task(self, task: LabelledTask) -> PrintedMoments:
        """Fold in a task class by class, see `Accumulator`; the paper starts from zeros and knows no prior."""
        after = self
        for c in task.classes:
            members = replace(task, kept=task.kept & (task.labels == c), classes=np.array([c]))
            n = float(members.kept.sum() * len(task.views))
            if n == 0:
                unknown = np.full((1, len(self.pivot)), np.nan)
                after = replace(after, means=np.vstack([after.means, unknown]))
            else:
                after = after.with_class(task_statistics(members, "float64"), n)
        return after

    def with_class(self, s: ClassStatistics, n: float) -> PrintedMoments:
        """Fold in a class of ``n`` rows by its statistics."""
        weight, pivot = s.total_weight, self.pivot
        # (16): (1/n) Σωz = (Σωδ + Σω·pivot)/n, here less the pivot
        mean = (s.sums[0] + weight * pivot) / n - pivot
        # Σω(δ−m)(δ−m)ᵀ = Σωδδᵀ − s mᵀ − m sᵀ + Σω m mᵀ
        cross = np.outer(s.sums[0], mean)
        scatter = s.scatter + np.tril(weight * np.outer(mean, mean) - cross - cross.T)
        rows, total = self.rows + n, self.weight + weight
        if total <= 1:
            raise InputError("eq. (17) divides by Σω − 1: there is too little weight for it")
        A = self.rows / rows * self.A + scatter / (total - 1)  # (17)
        return PrintedMoments(pivot, np.vstack([self.means, mean]), A, rows, total)

    def moments(self) -> Moments:
        """Return the moments; A is a covariance as it stands."""
        ones = np.ones(len(self.means))
        return Moments(self.means, self.A, ones, total=1.0, degrees=self.rows)
