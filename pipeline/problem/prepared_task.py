"""The tasks of a problem's target as adapting sees them, from the caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pipeline.method import task_preparation
from pipeline.method.kernel_directions import lowered
from pipeline.method.random_fourier_features import Basis
from pipeline.method.row_reduction import RowReduction
from pipeline.method.rows import Index
from pipeline.method.variants import MethodOptions
from pipeline.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class PreparedTask(task_preparation.PreparedTask):
    """A task of a problem's target; the source's model is along the basis's directions."""

    rows: Index  # (n,) row numbers of the train images that are not rejected


def prepared_tasks(
    problem: Problem,
    index: int,
    basis: Basis,
    views: Iterable[str],
    options: MethodOptions,
    *,
    reduce_rows: RowReduction,
    with_scatter: bool = False,
) -> Iterator[PreparedTask]:
    """Yield the tasks of the seed at ``index`` in order; the same for every stage that asks.

    Parameters
    ----------
    basis : Basis
        The seed's, reduced to the directions that count.
    views : iterable of str
        Views of the images that are opened; ``options.label_views`` among them.
    """
    target, names = problem.target, list(views)
    seed, tasks = target.seeds[index], range(len(target.class_sets))
    sources = (
        replace(model, classifier=lowered(basis, model.classifier))
        for model in problem.source_models(index, with_scatter=with_scatter)
    )
    prepared = task_preparation.prepared_tasks(
        basis,
        (target.task(seed, task, names) for task in tasks),
        sources,
        options,
        target.prompts.logit_scale,
        class_means=None if options.reject == "none" else problem.class_means(index),
        estimate_classes=target.estimate_classes,
        reduce_rows=reduce_rows,
    )
    for task, one in zip(tasks, prepared, strict=True):
        rows = target.train_index(seed, task)[one.accepted]
        yield PreparedTask(one.images, one.accepted, one.source, one.rejection, rows)
