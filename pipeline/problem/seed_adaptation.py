"""Adapting to the tasks of one seed of a problem: steps 2 to 9 of docs/method.md, on the caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pipeline.method.adaptation import adapt_task, pseudo_label
from pipeline.method.kernel_directions import lifted, lowered
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rejection import RejectionState
from pipeline.method.row_reduction import RowReduction
from pipeline.method.rows import Index
from pipeline.method.statistics_kinds import empty_statistics
from pipeline.method.task_preparation import PreparedTask, prepared_tasks
from pipeline.method.variants import MethodOptions
from pipeline.problem.problem import Problem
from pipeline.store.target_store import TaskLabels


@dataclass(frozen=True)
class RefinedViews:
    """Views to adapt to in place of the embedded ones, and the first labels that they were refined towards.

    Attributes
    ----------
    views : mapping of str to Path
        Of each view, an .npy file (S, n, d); rows of test images are NaN.
    first_labels : sequence of sequences of TaskLabels
        Of each task (inner) of each seed (outer), see `label_seed`.
    """

    views: Mapping[str, Path]
    first_labels: Sequence[Sequence[TaskLabels]]

    def rows(self, view: str, seed_index: int, index: Index) -> np.ndarray:
        """Return the rows (len(index), d) of a view, read from its file."""
        array: np.ndarray = np.load(self.views[view], mmap_mode="r")[seed_index, index]
        return array


@dataclass(frozen=True, eq=False)
class AdaptedSeed:
    """What the tasks of a seed leave behind, an entry per task."""

    classifiers: list[Classifier] = field(default_factory=list)
    labels: list[TaskLabels] = field(default_factory=list)  # the final ones
    rejections: list[RejectionState] = field(default_factory=list)  # empty if none is rejected


def label_seed(index: int, reduce_rows: RowReduction, *, problem: Problem, options: MethodOptions) -> list[TaskLabels]:
    """Return the row numbers and first labels of each task of the seed at ``index``."""
    basis, clip_scale = problem.bases.reduced(index, options), problem.target.prompts.logit_scale
    return [
        (rows, pseudo_label(basis, task.images, task.source, options, clip_scale, reduce_rows=reduce_rows))
        for rows, task in _tasks(index, reduce_rows, problem, options, basis)
    ]


def adapt_seed(
    index: int,
    reduce_rows: RowReduction,
    *,
    problem: Problem,
    options: MethodOptions,
    refined: RefinedViews | None = None,
) -> AdaptedSeed:
    """Add the tasks of the seed at ``index`` to the target's statistics, one after another.

    Of earlier tasks only the statistics are kept. ``refined`` is given where views are refined.
    """
    basis, clip_scale = problem.bases.reduced(index, options), problem.target.prompts.logit_scale
    statistics, seed = empty_statistics(basis, options), AdaptedSeed()
    for number, (rows, task) in enumerate(_tasks(index, reduce_rows, problem, options, basis, adapting=True)):
        images, labels = task.images, None
        if refined is not None:
            used = {v: refined.rows(v, index, rows) for v in refined.views if v in options.views}
            images = replace(images, views={**images.views, **used})
            labels = refined.first_labels[index][number][1]
        statistics, adapted = adapt_task(
            basis,
            images,
            task.source,
            options,
            clip_scale,
            statistics=statistics,
            labels=labels,
            reduce_rows=reduce_rows,
        )
        seed.classifiers.append(lifted(basis, adapted.classifier))
        seed.labels.append((rows, adapted.labels))
        if task.rejection is not None:
            seed.rejections.append(task.rejection)
    return seed


def _tasks(
    index: int,
    reduce_rows: RowReduction,
    problem: Problem,
    options: MethodOptions,
    basis: Basis,
    *,
    adapting: bool = False,
) -> Iterator[tuple[Index, PreparedTask]]:
    """Yield the seed's tasks, each after the row numbers (n,) of its images; labelling needs less than ``adapting``."""
    target = problem.target
    seed, tasks = target.seeds[index], range(len(target.class_sets))
    views = options.views if adapting else options.label_views
    models = problem.source_models(index, with_scatter=adapting and options.source_covariance)
    prepared = prepared_tasks(
        basis,
        (target.task(seed, task, views) for task in tasks),
        (replace(model, classifier=lowered(basis, model.classifier)) for model in models),
        options,
        target.prompts.logit_scale,
        class_means=None if options.reject == "none" else problem.class_means(index),
        estimate_classes=target.estimate_classes,
        reduce_rows=reduce_rows,
    )
    for task, one in zip(tasks, prepared, strict=True):
        yield target.train_index(seed, task)[one.accepted], one
