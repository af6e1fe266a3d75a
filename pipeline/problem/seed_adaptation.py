"""Adapt to the tasks of one seed of a problem: steps 2 to 9 of docs/method.md, on the caches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipeline.method.adaptation import Referee, adapt_task, pseudo_label
from pipeline.method.kernel_directions import in_all_features, in_kept_directions
from pipeline.method.prepared_tasks import PreparedTask, prepared_tasks
from pipeline.method.rows import Index, RowReduction
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import MethodOptions
from pipeline.problem.problem import Problem
from pipeline.store.target_store import AdaptedSeed, TaskLabels


@dataclass(frozen=True)
class RefinedViews:
    """Views that replace the embedded ones, and the first labels that they were refined towards."""

    views: Mapping[str, Path]  # an .npy file (S, n, d) per view; rows of test images are NaN
    first_labels: Sequence[Sequence[TaskLabels]]  # for each seed, for each task: a result of `label_seed`

    def rows(self, view: str, seed_index: int, index: Index) -> np.ndarray:
        """Read the rows (len(index), d) of a view from its file."""
        array: np.ndarray = np.load(self.views[view], mmap_mode="r")[seed_index, index]
        return array


def label_seed(index: int, reduce_rows: RowReduction, *, problem: Problem, options: MethodOptions) -> list[TaskLabels]:
    """Return the row numbers and first labels of each task of the seed at ``index``."""
    referee = _referee(index, reduce_rows, problem, options)
    tasks = _tasks(index, problem, referee, options.label_views)
    return [(rows, pseudo_label(referee, task.images, task.source)) for rows, task in tasks]


def adapt_seed(
    index: int,
    reduce_rows: RowReduction,
    *,
    problem: Problem,
    options: MethodOptions,
    refined: RefinedViews | None = None,
) -> AdaptedSeed:
    """Add the tasks of the seed at ``index`` to the target's statistics, one after another.

    Only the statistics of earlier tasks are kept. If views are refined, ``refined`` has them.
    """
    referee, seed = _referee(index, reduce_rows, problem, options), AdaptedSeed()
    statistics = empty_statistics(referee.basis, options)
    tasks = _tasks(index, problem, referee, options.views, with_scatter=options.source_covariance)
    for number, (rows, task) in enumerate(tasks):
        images, labels = task.images, None
        if refined is not None:
            replaced = {v: refined.rows(v, index, rows) for v in refined.views if v in options.views}
            images = replace(images, views={**images.views, **replaced})
            labels = refined.first_labels[index][number][1]
        statistics, adapted = adapt_task(referee, images, task.source, statistics, labels)
        seed.classifiers.append(in_all_features(referee.basis, adapted.classifier))
        seed.labels.append((rows, adapted.labels))
        if task.rejection is not None:
            seed.rejections.append(task.rejection)
    return seed


def _referee(index: int, reduce_rows: RowReduction, problem: Problem, options: MethodOptions) -> Referee:
    return Referee(problem.bases.reduced(index, options), options, problem.target.prompts.logit_scale, reduce_rows)


def _tasks(
    index: int, problem: Problem, referee: Referee, views: Sequence[str], *, with_scatter: bool = False
) -> Iterator[tuple[Index, PreparedTask]]:
    """Yield pairs (row numbers (n,), task), one per task of the seed."""
    target = problem.target
    seed, numbers = target.seeds[index], range(len(target.class_sets))
    models = problem.source_models(index, with_scatter=with_scatter)
    prepared = prepared_tasks(
        referee,
        (target.task(seed, number, views) for number in numbers),
        (replace(model, classifier=in_kept_directions(referee.basis, model.classifier)) for model in models),
        directions=None if referee.options.reject == "none" else problem.class_directions(index),
        estimate_classes=target.estimate_classes,
    )
    for number, task in zip(numbers, prepared, strict=True):
        yield target.train_index(seed, number)[task.accepted], task
