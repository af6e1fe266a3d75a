"""The released code's statistics: running means from a warm start, each batch of images centred on them.

The scatter depends on the batching; it is kept for tracing published numbers. Where a task list has fewer rows than
features it is kept as its rows (`row_scatter`): at the paper's D = 6000 that is most of the small benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipeline.method.blas_products import product
from pipeline.method.class_statistics import Labels, Matrix64, Vector64
from pipeline.method.moments import LabelledTask, Moments, no_moments
from pipeline.method.row_scatter import no_rows
from pipeline.method.scatter_products import ROWS, add_product
from pipeline.method.zero_shot import Matrix


@dataclass(frozen=True, eq=False)
class BatchCentredMoments:
    """known: what is known so far. batch_images: per batch, with all their views."""

    known: Moments
    batch_images: int

    def with_task(self, task: LabelledTask) -> BatchCentredMoments:
        """Fold in a task batch by batch, see `Accumulator`."""
        start, count = task.prior_means()
        means, counts = start.copy(), np.full(len(task.classes), count)
        after = self._scattered(task, means, counts)
        total = float(task.weights[task.kept].sum() * len(task.views))
        new = replace(
            after,
            means=np.vstack([self.known.means, np.where((counts > 0)[:, None], means, np.nan)]),
            weight=np.append(self.known.weight, counts),
            total=self.known.total + total,
            degrees=self.known.degrees + total,
        )
        return replace(self, known=new)

    def _scattered(self, task: LabelledTask, means: Matrix64, counts: Vector64) -> Moments:
        """Return what is known with the task's scatter added; ``means`` and ``counts`` are moved by its rows."""
        spanned, blocks = self.known.spanned, self._centred(task, means, counts)
        if spanned is not None and spanned.has_room(int(task.kept.sum()) * len(task.views)):
            rows = np.vstack([np.zeros((0, task.D)), *blocks])
            grown = spanned.grown(rows)
            if grown is not None:
                return replace(self.known, spanned=grown)
            blocks = iter([rows])
        scatter = spanned.dense() if spanned is not None else self.known.scatter.copy(order="F")
        for rows in blocks:
            add_product(scatter, rows)
        return replace(self.known, scatter=scatter, spanned=None)

    def _centred(self, task: LabelledTask, means: Matrix64, counts: Vector64) -> Iterator[Matrix64]:
        """Move ``means`` and ``counts`` by batches; yield rows (b, D) about them, times the root of their weight."""
        first, blocks = int(task.classes.min()), list[Matrix64]()
        for place, views in task.batches(self.batch_images):
            rows = np.concatenate(list(views.values()), dtype=np.float64)
            labels = np.tile(task.labels[place] - first, len(views))
            weights = np.tile(task.weights[place], len(views))
            _move_means(means, counts, rows, labels, weights)
            rows -= means[labels]
            rows *= np.sqrt(weights)[:, None]
            blocks.append(rows)
            if sum(map(len, blocks)) >= ROWS:  # one product of many batches: small ones are slow
                yield np.vstack(blocks)
                blocks = []
        if blocks:
            yield np.vstack(blocks)

    def moments(self) -> Moments:
        """Return the moments; classes that no batch and no warm start has touched have no mean."""
        return self.known


def batch_centred(D: int, batch_images: int, ridge: float | None) -> BatchCentredMoments:
    """Return the moments of no task. ridge: what a solution will add to the diagonal; None: not known beforehand."""
    nothing = no_moments(D)
    if ridge:
        unformed = np.broadcast_to(np.float64(np.nan), (D, D))
        nothing = replace(nothing, scatter=unformed, spanned=no_rows(D, ridge))
    return BatchCentredMoments(nothing, batch_images)


def _move_means(
    means: Matrix64, counts: Vector64, rows: Matrix, labels: Labels, weights: Vector64
) -> None:
    """Move running means (C, D) with their counts (C,) by a batch of rows (n, D), in place."""
    one_hot = np.zeros((len(counts), len(labels)))
    one_hot[labels, np.arange(len(labels))] = weights
    added = one_hot.sum(axis=1)
    moved = added > 0
    total = (counts + added)[moved, None]
    means[moved] = (counts[moved, None] * means[moved] + product(one_hot, rows)[moved]) / total
    counts += added
