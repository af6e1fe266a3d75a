"""Means and one shared scatter, from a stream of labelled rows: ours, the paper's, the released code's.

An accumulator is fed the rows of one task after another and yields `Moments`, which is all that a
classifier needs. Three ways to the same thing, METHOD.md's table:

- `ExactMoments`: `ClassStatistics`; any batching and order gives the same numbers;
- `PrintedMoments`: eqs. (16) and (17) to the letter;
- `BatchCentredMoments`: the released code's: each batch is centred on the means so far, which
  include the warm start, so that the scatter depends on the batching.

All are in deviation coordinates, δ = z − pivot. (16) is not linear in them: it shrinks z itself
towards 0, so that `PrintedMoments` needs the pivot.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.errors import InputError
from pipeline.method import class_statistics
from pipeline.method.class_statistics import ClassStatistics, Labels, Matrix64, Vector64
from pipeline.method.random_fourier_features import Basis, deviation
from pipeline.method.zero_shot import Matrix

IMAGES = 2048  # whose features are made at a time: bounds the memory, not the result


@dataclass(frozen=True, eq=False)
class Moments:
    """Class means less the pivot (C, D), NaN where a class has no row; scatter (D, D), lower triangle.

    total: what divides the scatter into a covariance. degrees: effective rows about the means.
    """

    means: Matrix64
    scatter: Matrix64
    total: float
    degrees: float

    def covariance(self) -> Matrix64:
        """Return scatter / total, (D, D), lower triangle."""
        if self.total <= 0:
            raise InputError("covariance: no row has any weight")
        return np.asarray(self.scatter / self.total)


class Accumulator(Protocol):
    """What takes a task's rows and yields moments."""

    def add_task(
        self,
        views: Sequence[Matrix],
        labels: Labels,
        weights: Vector64,
        classes: Labels,
        prior: tuple[Matrix64, float] | None,
    ) -> None:
        """Fold in a task: embeddings (n, d) per view, shared labels and weights (n,).

        classes: of the task, the next ones in order. prior: their means (|classes|, D) and the
        count with which they enter.
        """

    def moments(self) -> Moments:
        """Return what is known so far."""

    def copied(self) -> Accumulator:
        """Return an independent copy, for a trial."""


class ExactMoments:
    """Σωz / Σω and Σω(z−μ)(z−μ)ᵀ, by sums that add; a prior adds count·mean to a class's sums."""

    def __init__(self, basis: Basis, statistics: ClassStatistics | None = None) -> None:
        self.basis = basis
        self.statistics = statistics or class_statistics.zeros(0, basis.D)
        self.prior_sums = np.zeros((0, basis.D))
        self.prior_counts = np.zeros(0)

    def add_task(
        self,
        views: Sequence[Matrix],
        labels: Labels,
        weights: Vector64,
        classes: Labels,
        prior: tuple[Matrix64, float] | None,
    ) -> None:
        """Fold in a task, see `Accumulator`."""
        C = int(classes.max()) + 1
        self.statistics = self.statistics.grown(C)
        means, count = prior if prior is not None else (np.zeros((len(classes), self.basis.D)), 0.0)
        self.prior_sums = np.vstack([self.prior_sums, count * means])
        self.prior_counts = np.append(self.prior_counts, np.full(len(classes), count))
        for x in views:
            for block in _blocks(len(labels)):
                rows = deviation(self.basis, x[block])
                class_statistics.add_rows(self.statistics, rows, labels[block], weights[block])

    def moments(self) -> Moments:
        """Return the moments; the scatter is about the rows' own means, whatever the prior."""
        weight = self.statistics.weight + self.prior_counts
        known = np.where(weight > 0, weight, np.nan)
        return Moments(
            means=np.asarray((self.statistics.sums + self.prior_sums) / known[:, None]),
            scatter=self.statistics.within_scatter(),
            total=self.statistics.total_weight,
            degrees=self.statistics.degrees_of_freedom(),
        )

    def copied(self) -> ExactMoments:
        """Return an independent copy."""
        return copy.deepcopy(self)


class PrintedMoments:
    """Eqs. (16) and (17) as printed: (1/n)Σωz, and a running A that mixes N and Σω."""

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self.means = np.zeros((0, basis.D))
        self.A = np.zeros((basis.D, basis.D), order="F")
        self.rows = 0.0
        self.weight = 0.0

    def add_task(
        self,
        views: Sequence[Matrix],
        labels: Labels,
        weights: Vector64,
        classes: Labels,
        prior: tuple[Matrix64, float] | None,  # noqa: ARG002  the paper starts from zeros
    ) -> None:
        """Fold in a task class by class, see `Accumulator`."""
        for c in classes:
            members = labels == c
            n = float(members.sum() * len(views))
            if n == 0:
                self.means = np.vstack([self.means, np.full(self.basis.D, np.nan)])
                continue
            alone = ExactMoments(self.basis)
            zeros = np.zeros(int(members.sum()), dtype=np.intp)
            rows = [x[members] for x in views]
            alone.add_task(rows, zeros, weights[members], np.array([0]), None)
            self._add_class(alone.statistics, n)

    def _add_class(self, s: ClassStatistics, n: float) -> None:
        weight, pivot = s.total_weight, self.basis.pivot
        # (16): (1/n) Σωz = (Σωδ + Σω·pivot)/n, here less the pivot
        mean = (s.sums[0] + weight * pivot) / n - pivot
        # Σω(δ−m)(δ−m)ᵀ = Σωδδᵀ − s mᵀ − m sᵀ + Σω m mᵀ
        cross = np.outer(s.sums[0], mean)
        scatter = s.scatter + np.tril(weight * np.outer(mean, mean) - cross - cross.T)
        before, self.rows, self.weight = self.rows, self.rows + n, self.weight + weight
        if self.weight <= 1:
            raise InputError("eq. (17) divides by Σω − 1: there is too little weight for it")
        self.A = before / self.rows * self.A + scatter / (self.weight - 1)  # (17)
        self.means = np.vstack([self.means, mean])

    def moments(self) -> Moments:
        """Return the moments; A is a covariance as it stands."""
        return Moments(self.means.copy(), self.A, total=1.0, degrees=self.rows)

    def copied(self) -> PrintedMoments:
        """Return an independent copy."""
        return copy.deepcopy(self)


class BatchCentredMoments:
    """The released code's: running means from a warm start, each batch centred on them."""

    def __init__(self, basis: Basis, batch_images: int) -> None:
        self.basis = basis
        self.batch_images = batch_images
        self.means = np.zeros((0, basis.D))
        self.counts = np.zeros(0)
        self.scatter = np.zeros((basis.D, basis.D), order="F")
        self.weight = 0.0

    def add_task(
        self,
        views: Sequence[Matrix],
        labels: Labels,
        weights: Vector64,
        classes: Labels,
        prior: tuple[Matrix64, float] | None,
    ) -> None:
        """Fold in a task batch by batch, see `Accumulator`."""
        means, count = prior if prior is not None else (np.zeros((len(classes), self.basis.D)), 0.0)
        self.means = np.vstack([self.means, means])
        self.counts = np.append(self.counts, np.full(len(classes), count))
        for start in range(0, len(labels), self.batch_images):
            batch = slice(start, start + self.batch_images)
            rows = np.vstack([deviation(self.basis, x[batch]) for x in views])
            self._add_batch(
                rows, np.tile(labels[batch], len(views)), np.tile(weights[batch], len(views))
            )

    def _add_batch(self, rows: Matrix, labels: Labels, weights: Vector64) -> None:
        batch = class_statistics.from_rows(rows, labels, weights, len(self.counts))
        total = self.counts + batch.weight
        moved = batch.weight > 0
        self.means[moved] = (self.counts[:, None] * self.means + batch.sums)[moved] / total[moved][
            :, None
        ]
        self.counts = total
        centred = rows.astype(np.float64) - self.means[labels]
        one = np.zeros(len(labels), dtype=np.intp)
        self.scatter += class_statistics.from_rows(centred, one, weights, 1).scatter
        self.weight += float(weights.sum())

    def moments(self) -> Moments:
        """Return the moments; classes that no batch and no warm start has touched have no mean."""
        means = np.where((self.counts > 0)[:, None], self.means, np.nan)
        return Moments(means, self.scatter, total=self.weight, degrees=self.weight)

    def copied(self) -> BatchCentredMoments:
        """Return an independent copy."""
        return copy.deepcopy(self)


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + IMAGES) for start in range(0, n, IMAGES)]
