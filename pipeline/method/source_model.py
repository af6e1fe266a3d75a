"""What the source leaves behind: class means and one shared scatter after each task.

`fit_source` is the only function of the method that sees source rows and labels; the functions of
the target take a `SourceModel`, which holds neither.

Classes are numbered in the order in which they arrive: task t has the next ones, so that the
classes seen after task t are 0 … K−1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError, listed
from pipeline.method import kernel_lda
from pipeline.method.batch_centred import batch_centred
from pipeline.method.blas_products import product
from pipeline.method.class_statistics import Labels, Matrix64, packed
from pipeline.method.joint_rows import kernel_features
from pipeline.method.kernel_lda import Classifier
from pipeline.method.moments import (
    Accumulator,
    ExactMoments,
    LabelledTask,
    Moments,
    PrintedMoments,
    no_moments,
)
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_ranges import RowRanges
from pipeline.method.task_features import IMAGES, Rows, blocks_of, subset
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import unit_rows

SAME_FEATURES = 1e-6  # the share of variance within classes below which there is none
NO_SPREAD = (
    "no feature varies within a class (one row per class, or copies of one image): there is no covariance to estimate; "
    "give more images or views, or set method.options.ridge_kind: absolute"
)


@dataclass(frozen=True, eq=False)
class SourceSpread:
    """The source's scatter about its class means, to be pooled with the target's.

    triangle: D(D+1)/2 numbers, the lower triangle by columns, in float32, which a ridge of any size hides: one
    such triangle is kept per task, seed and source. total, degrees: as in `Moments`.
    """

    triangle: npt.NDArray[np.float32]
    total: float
    degrees: float

    def add_to(self, scatter: Matrix64) -> None:
        """Add it to the lower triangle of ``scatter`` (D, D), in place, with no second D×D matrix."""
        start = 0
        for j in range(len(scatter)):
            stop = start + len(scatter) - j
            scatter[j:, j] += self.triangle[start:stop]
            start = stop


@dataclass(frozen=True, eq=False)
class SourceModel:
    """What the source leaves behind after a task: no row, no label.

    means: (K, D) less the pivot, of the K classes seen. classifier: of the same. embedding_means: (K, d) of the unit
    embeddings, for the nearest-mean reference row. spreads: one per basis of the ensemble; none if not pooled.
    """

    means: Matrix64
    classifier: Classifier
    embedding_means: Matrix64
    spreads: tuple[SourceSpread, ...] = ()


def fit_source(
    basis: Basis,
    views: Mapping[str, Rows],
    labels: Labels,
    tasks: Sequence[Labels],
    options: MethodOptions,
    *,
    clip: Rows | None = None,
) -> list[SourceModel]:
    """Return the source model after each task, see `source_models`."""
    return list(source_models(basis, views, labels, tasks, options, clip=clip))


def source_models(
    basis: Basis,
    views: Mapping[str, Rows],
    labels: Labels,
    tasks: Sequence[Labels],
    options: MethodOptions,
    *,
    clip: Rows | None = None,
    elsewhere: RowRanges | None = None,
) -> Iterator[SourceModel]:
    """Yield the source model after each task, see `source_moments`."""
    for moments, embedding_means in source_moments(
        basis, views, labels, tasks, options, clip=clip, elsewhere=elsewhere
    ):
        yield model_of(moments, embedding_means, options)


def source_moments(
    basis: Basis,
    views: Mapping[str, Rows],
    labels: Labels,
    tasks: Sequence[Labels],
    options: MethodOptions,
    *,
    clip: Rows | None = None,
    elsewhere: RowRanges | None = None,
) -> Iterator[tuple[list[Moments], Matrix64]]:
    """Yield after each task the moments of each member and the embedding means, from rows (n, d) by view, labels (n,).

    tasks: the class set of each task. A class without a row is an error. Of the views that the options ask for,
    those given are used: a domain that is only a source may have been embedded in the original alone. clip: (n, d')
    CLIP's embeddings of the images, if they are to enter the kernel. elsewhere: who takes ranges of
    the rows if they are many.
    """
    check_task_order(tasks)
    used = [view for view in options.views_of_source if view in views]
    running = [accumulator(basis.member(m), options, source=True) for m in range(basis.members)]
    means = np.zeros((0, views["original"].shape[1]))
    for classes in tasks:
        rows = np.flatnonzero(np.isin(labels, classes))  # nothing of an earlier task is read again
        of_task = {view: subset(views[view], rows) for view in used}
        said = None if clip is None else subset(clip, rows)
        features = kernel_features(basis, of_task, said, options.clip_in_kernel, elsewhere)
        n = len(features)
        running = [
            member.with_task(
                LabelledTask(
                    features, m, used, labels[rows], np.ones(n), np.ones(n, np.bool_), classes
                )
            )
            for m, member in enumerate(running)
        ]
        new = _embedding_means(of_task["original"], labels[rows] - classes.min(), len(classes))
        means = np.vstack([means, new])
        yield [member.moments() for member in running], means


def model_of(
    moments: Sequence[Moments],
    embedding_means: Matrix64,
    options: MethodOptions,
    *,
    overwrite: bool = False,
) -> SourceModel:
    """Return the source model of each member's moments; overwrite: in the memory of their scatters, which are lost."""
    pooled = moments if options.source_covariance else []
    spreads = tuple(
        SourceSpread(packed(m.scatter).astype(np.float32), m.total, m.degrees) for m in pooled
    )
    ridges = [absolute_ridge(m, options, options.source_ridge) for m in moments]
    classifiers = [
        classifier_of(m, options, ridge=ridge, overwrite=overwrite)
        for m, ridge in zip(moments, ridges, strict=True)
    ]
    return SourceModel(
        means=np.hstack([m.means for m in moments]),
        classifier=kernel_lda.averaged(classifiers),
        embedding_means=embedding_means,
        spreads=spreads,
    )


def _embedding_means(rows: Rows, labels: Labels, classes: int) -> Matrix64:
    """Return the means (C, d) of unit rows (n, d) per class, read in blocks."""
    sums, counts = np.zeros((classes, rows.shape[1])), np.bincount(labels, minlength=classes)
    for block in blocks_of(len(rows), IMAGES):
        sums += product(np.eye(classes)[labels[block]].T, unit_rows(rows[block]))
    return np.asarray(sums / np.where(counts > 0, counts, np.nan)[:, None])


def accumulator(basis: Basis, options: MethodOptions, *, source: bool) -> Accumulator:
    """Return an empty accumulator; on the source side the printed equations are the exact ones."""
    if options.statistics == "batch_centred":
        ridge = options.source_ridge if source else options.ridge
        return batch_centred(
            basis.D, options.batch_images, ridge if _solved_as_it_is(options) else None
        )
    if options.statistics == "printed" and not source:
        D = basis.D
        return PrintedMoments(basis.pivot, np.zeros((0, D)), np.zeros((D, D), order="F"))
    # (9), (10): a running average is a covariance
    return ExactMoments(no_moments(basis.D), options.arithmetic)


def _solved_as_it_is(options: MethodOptions) -> bool:
    """Is scatter + ridge·I what is solved with, nothing pooled, divided, shrunk or relative to the scatter itself?"""
    return (
        (options.ridge_kind, options.inverse, options.shrinkage) == ("absolute", "cholesky", None)
        and not options.divide_scatter
        and not options.source_covariance
    )


def check_task_order(tasks: Sequence[Labels]) -> None:
    """Refuse class sets that are not 0, 1, 2, … over the tasks."""
    order = [int(c) for classes in tasks for c in sorted(classes)]
    if order != list(range(len(order))):
        raise InputError(f"tasks: classes must be numbered in the order of arrival, not {order}")


def absolute_ridge(moments: Moments, options: MethodOptions, ridge: float) -> float:
    """Return what is added to the diagonal of the scatter: a relative ridge is a share of its mean diagonal."""
    if options.ridge_kind == "relative":
        check_spread(float(np.trace(moments.scatter)), moments.total, moments.means)
        return kernel_lda.relative_ridge(moments.scatter, ridge)
    return ridge * (moments.total if options.divide_scatter else 1.0)


def check_spread(trace: float, total: float, means: Matrix64) -> None:
    """Refuse a scatter that is nothing but rounding, given its trace, its weight and the class means (C, D).

    A ridge relative to it would be rounding too. Features that vary by less than a thousandth of their size are the
    same image again and again; the rounding of float32 products is a tenth of that.
    """
    known = means[~np.isnan(means).any(axis=1)]
    size = float(np.einsum("cd,cd->", known, known)) / max(1, len(known))
    if trace <= SAME_FEATURES * total * size:
        raise InputError(NO_SPREAD)


def classifier_of(
    moments: Moments,
    options: MethodOptions,
    *,
    ridge: float,
    fallback: Matrix64 | None = None,
    overwrite: bool = False,
) -> Classifier:
    """Return the classifier of ``moments`` under the options' normalisation, shrinkage and inverse.

    ridge: in the units of the scatter, see `absolute_ridge`. fallback: means (K, D) for classes without a row.
    overwrite: in the memory of the moments' scatter, which is lost.
    """
    means = filled(moments.means, fallback)
    priors = class_priors(moments, options)
    if moments.spanned is not None:
        return kernel_lda.with_biases(means, moments.spanned.solve(means.T), priors)
    divisor = moments.total if options.divide_scatter else 1.0
    if divisor <= 0:
        raise InputError("covariance: no row has any weight")
    spread = moments.scatter if overwrite else moments.scatter.copy(order="F")
    spread /= divisor
    spread = kernel_lda.shrink(spread, options.shrinkage, moments.degrees)
    return kernel_lda.discriminants(
        means,
        spread,
        ridge=ridge / divisor,
        priors=priors,
        route=options.inverse,
        overwrite=True,
    )


def class_priors(moments: Moments, options: MethodOptions) -> Matrix64 | None:
    """Return the classes' shares of the weight (C,), or None for equal ones; an empty class counts one row."""
    if options.class_priors == "equal":
        return None
    return np.maximum(moments.weight, 1.0)


def filled(means: Matrix64, fallback: Matrix64 | None) -> Matrix64:
    """Return means (C, D) with those of empty classes, which are NaN, from ``fallback``."""
    empty = np.asarray(np.isnan(means).any(axis=1))
    if not empty.any():
        return means
    if fallback is None:
        names = listed(np.flatnonzero(empty))
        raise InputError(f"no sample of class {names}; give a fallback mean for it")
    return np.where(empty.reshape(-1, 1), fallback, means)
