"""Adapt to the tasks of one seed of a problem, reading the caches: see `method.adaptation`."""

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


def label_seed(
    seed_index: int, reduce_rows: RowReduction, *, problem: Problem, options: MethodOptions
) -> list[TaskLabels]:
    """Return the row numbers and first labels of each task of a seed."""
    referee = _referee(seed_index, reduce_rows, problem, options)
    tasks = _tasks(seed_index, problem, referee, options.label_views)
    return [(rows, pseudo_label(referee, task.images, task.source)) for rows, task in tasks]


def adapt_seed(
    seed_index: int,
    reduce_rows: RowReduction,
    *,
    problem: Problem,
    options: MethodOptions,
    refined: RefinedViews | None = None,
) -> AdaptedSeed:
    """Add the tasks of a seed to the target's statistics, one after another.

    Only the statistics of earlier tasks are kept. If views are refined, ``refined`` has them.
    """
    referee, adapted_seed = _referee(seed_index, reduce_rows, problem, options), AdaptedSeed()
    statistics = empty_statistics(referee.basis, options)
    tasks = _tasks(seed_index, problem, referee, options.views, with_scatter=options.source_covariance)
    for t, (rows, task) in enumerate(tasks):
        images, labels = task.images, None
        if refined is not None:
            replaced = {v: refined.rows(v, seed_index, rows) for v in refined.views if v in options.views}
            images = replace(images, views={**images.views, **replaced})
            labels = refined.first_labels[seed_index][t][1]
        statistics, adapted = adapt_task(referee, images, task.source, statistics, labels)
        adapted_seed.classifiers.append(in_all_features(referee.basis, adapted.classifier))
        adapted_seed.labels.append((rows, adapted.labels))
        if task.rejection is not None:
            adapted_seed.rejections.append(task.rejection)
    return adapted_seed


def _referee(seed_index: int, reduce_rows: RowReduction, problem: Problem, options: MethodOptions) -> Referee:
    return Referee(problem.bases.reduced(seed_index, options), options, problem.target.prompts.logit_scale, reduce_rows)


def _tasks(
    seed_index: int, problem: Problem, referee: Referee, views: Sequence[str], *, with_scatter: bool = False
) -> Iterator[tuple[Index, PreparedTask]]:
    """Yield pairs (row numbers (n,), task), one per task of the seed."""
    target = problem.target
    seed, task_numbers = target.seeds[seed_index], range(len(target.class_sets))
    models = problem.source_models(seed_index, with_scatter=with_scatter)
    prepared = prepared_tasks(
        referee,
        (target.task(seed, t, views) for t in task_numbers),
        (replace(model, classifier=in_kept_directions(referee.basis, model.classifier)) for model in models),
        directions=None if referee.options.reject == "none" else problem.class_directions(seed_index),
        estimate_classes=target.estimate_classes,
    )
    for t, task in zip(task_numbers, prepared, strict=True):
        yield target.train_index(seed, t)[task.accepted], task
