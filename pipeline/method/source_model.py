"""Fit the source model: class means, one shared scatter and a classifier after each task.

`fit_source` is the only function of the method that sees source rows and labels. Functions of the target take a
`SourceModel`, which holds neither. Classes are numbered in order of arrival, so the classes seen after task t are
0 … K−1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method import kernel_lda
from pipeline.method.class_statistics import packed
from pipeline.method.kernel_lda import Classifier, filled_means
from pipeline.method.kernel_rows import KernelRows, Sharing, joined_rows, no_sharing
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rows import Index, LabelledRows, Labels, Matrix64, RowReduction, Rows, reduce_locally, take
from pipeline.method.task_statistics import LabelledTask, Statistics, empty_statistics
from pipeline.method.variants import MethodOptions
from pipeline.method.within_scatter import DenseScatter, dense
from pipeline.method.zero_shot import class_means


@dataclass(frozen=True, eq=False)
class SourceScatter:
    """The source's scatter about its class means, for pooling with the target's."""

    # (D(D+1)/2,) lower triangle, column by column. float32 is precise enough with any ridge and saves space: one
    # triangle is stored per task, seed and source
    triangle: npt.NDArray[np.float32]
    total: float  # Σω of the source's rows
    degrees: float  # effective number of rows about the class means

    def add_to(self, scatter: DenseScatter) -> None:
        """Add this scatter to ``scatter`` in place, without another D×D matrix."""
        start, D = 0, len(scatter.triangle)
        for j in range(D):
            stop = start + D - j
            scatter.triangle[j:, j] += self.triangle[start:stop]
            start = stop
        scatter.total += self.total
        scatter.degrees += self.degrees


@dataclass(frozen=True, eq=False)
class SourceModel:
    """The source model after a task; it contains no rows and no labels."""

    means: Matrix64  # (K, D) means, minus the pivot, of the K classes seen
    classifier: Classifier  # of the same classes
    embedding_means: Matrix64  # (K, d) class means of unit embeddings, for the reference row `nearest_mean`
    scatter: SourceScatter | None = None  # None if it is not pooled with the target's


def fit_source(
    basis: Basis,
    views: Mapping[str, Rows],
    labels: Labels,
    tasks: Sequence[Labels],
    options: MethodOptions,
    *,
    clip: Rows | None = None,
    reduce_rows: RowReduction = reduce_locally,
    shared: Sharing = no_sharing,
    held_out: npt.NDArray[np.bool_] | None = None,
    last_only: bool = False,
) -> Iterator[SourceModel]:
    """Yield the source model after each task.

    Parameters
    ----------
    views : mapping of str to Rows of shape (n, d)
        Embeddings by view. Views named by the options but missing here are skipped: a domain that is only a source may
        have been embedded in the original view alone.
    labels : ndarray of shape (n,)
        Class of each image. Every class must have a row.
    tasks : sequence of ndarray
        Classes of each task, numbered in order of arrival.
    clip : Rows of shape (n, d'), optional
        CLIP's embeddings of the images, if they enter the kernel.
    held_out : ndarray of bool of shape (n,), optional
        Rows that are not fitted to.
    last_only : bool, default False
        Yield only the model after the last task and skip solving for the others.
    """
    used = [view for view in options.views_of_source if view in views]
    statistics = empty_statistics(basis, options, source=True)
    means = np.zeros((0, views["original"].shape[1]))
    for t, classes in enumerate(tasks):
        index = np.flatnonzero(np.isin(labels, classes))  # no earlier task's row is read again

        def task_features(index: Index = index) -> KernelRows:
            task_views = {view: take(rows, index) for view, rows in views.items()}
            task_clip = None if clip is None else take(clip, index)
            return joined_rows(basis, task_views, task_clip, options.clip_in_kernel)

        features = shared(("source features", t, options.clip_in_kernel, basis.width), task_features)
        task_views = {view: features.views[view] for view in used}
        rows = LabelledRows(task_views, labels[index], np.ones(len(index)))
        if held_out is not None:
            inside = np.flatnonzero(~held_out[index])
            rows, index = rows.take(inside), index[inside]
        statistics = statistics.update(LabelledTask(features.basis, rows, classes), reduce_rows)
        original = take(views["original"], index)
        means = np.vstack([means, class_means(original, labels[index] - classes.min(), len(classes))])
        if t == len(tasks) - 1 or not last_only:
            yield _model_of(statistics, means, options, basis.D)


def _model_of(statistics: Statistics, embedding_means: Matrix64, options: MethodOptions, D: int) -> SourceModel:
    """Return the source model of the statistics and the class means (K, d) of unit embeddings, with D features."""
    regularisation = options.regularisation(source=True)
    within, means = statistics.within(), filled_means(statistics.means())
    scatter = None
    if options.source_covariance:
        triangle = packed(dense(within).triangle).astype(np.float32)
        scatter = SourceScatter(triangle, within.total, dense(within).degrees)
    ridge, priors = regularisation.absolute_ridge(within, means, D), options.class_weights(statistics.weight())
    classifier = kernel_lda.solve(means, within, regularisation, ridge=ridge, priors=priors)
    return SourceModel(means, classifier, embedding_means, scatter)
