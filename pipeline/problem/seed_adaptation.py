"""Adapting to the tasks of one seed of a problem: steps 2 to 9 of docs/method.md, on the caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pipeline.method.adaptation import adapt_task, empty_statistics, pseudo_label
from pipeline.method.kernel_directions import lifted
from pipeline.method.kernel_lda import Classifier
from pipeline.method.rejection import RejectionState
from pipeline.method.row_reduction import RowReduction
from pipeline.method.variants import MethodOptions
from pipeline.problem.prepared_task import prepared_tasks
from pipeline.problem.problem import Problem
from pipeline.store.pseudo_label_store import TaskLabels


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

    def rows(self, view: str, seed_index: int, index: np.typing.NDArray[np.intp]) -> np.ndarray:
        """Return the rows (len(index), d) of a view, read from its file."""
        array: np.ndarray = np.load(self.views[view], mmap_mode="r")[seed_index, index]
        return array


@dataclass(frozen=True, eq=False)
class AdaptedSeed:
    """What the tasks of a seed leave behind, an entry per task."""

    classifiers: list[Classifier] = field(default_factory=list)
    first_labels: list[TaskLabels] = field(default_factory=list)
    labels: list[TaskLabels] = field(default_factory=list)  # the final ones
    rejections: list[RejectionState] = field(default_factory=list)  # empty if none is rejected


def label_seed(index: int, reduce_rows: RowReduction, *, problem: Problem, options: MethodOptions) -> list[TaskLabels]:
    """Return the row numbers and first labels of each task of the seed at ``index``."""
    basis, clip_scale = problem.bases.reduced(index, options), problem.target.prompts.logit_scale
    tasks = prepared_tasks(problem, index, basis, options.label_views, options, reduce_rows=reduce_rows)
    return [
        (task.rows, pseudo_label(basis, task.images, task.source, options, clip_scale, reduce_rows=reduce_rows))
        for task in tasks
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
    tasks = prepared_tasks(
        problem, index, basis, options.views, options, reduce_rows=reduce_rows, with_scatter=options.source_covariance
    )
    for number, task in enumerate(tasks):
        images, labels = task.images, None
        if refined is not None:
            used = {v: refined.rows(v, index, task.rows) for v in refined.views if v in options.views}
            images = replace(images, views={**images.views, **used})
            labels = refined.first_labels[index][number][1]
        statistics, adapted = adapt_task(
            basis,
            statistics,
            images,
            labels,
            source=task.source,
            options=options,
            clip_scale=clip_scale,
            reduce_rows=reduce_rows,
        )
        seed.classifiers.append(lifted(basis, adapted.classifier))
        seed.first_labels.append((task.rows, adapted.first_labels))
        seed.labels.append((task.rows, adapted.labels))
        if task.rejection is not None:
            seed.rejections.append(task.rejection)
    return seed
