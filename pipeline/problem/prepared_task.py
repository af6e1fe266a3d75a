"""A target's task as adapting sees it: without the images that are rejected, with the classes that are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pipeline.method.kernel_directions import lowered
from pipeline.method.presence import with_present_classes
from pipeline.method.random_fourier_features import Basis
from pipeline.method.rejection import RejectionState, empty_state, reject
from pipeline.method.row_reduction import RowReduction
from pipeline.method.rows import Index, TargetTask
from pipeline.method.source_model import SourceModel
from pipeline.method.variants import MethodOptions
from pipeline.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """A task of a target.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        Row numbers of the train images that are not rejected.
    images : TargetTask
        These images, and the classes that they may have.
    source : SourceModel
        The source's model after the task, along the basis's directions.
    rejection : RejectionState or None
        After the task; None if nothing is rejected.
    """

    rows: Index
    images: TargetTask
    source: SourceModel
    rejection: RejectionState | None


def prepared_tasks(
    problem: Problem,
    index: int,
    basis: Basis,
    views: Iterable[str],
    options: MethodOptions,
    *,
    reduce_rows: RowReduction,
    with_scatter: bool = False,
) -> Iterable[PreparedTask]:
    """Yield the tasks of the seed at ``index`` in order; the same for every stage that asks.

    Parameters
    ----------
    basis : Basis
        The seed's, reduced to the directions that count.
    views : iterable of str
        Views of the images that are opened; ``options.label_views`` among them.
    """
    target, names = problem.target, list(views)
    seed = target.seeds[index]
    state, means = None, np.zeros((0, 0))
    if options.reject != "none":
        state, means = empty_state(target.vision.width), problem.class_means(index)
    for task, model in enumerate(problem.source_models(index, with_scatter=with_scatter)):
        source = replace(model, classifier=lowered(basis, model.classifier))
        rows, images = target.train_index(seed, task), target.task(seed, task, names)
        if state is not None:
            state, unknown = reject(state, images, means, images.classes)
            accepted = np.flatnonzero(~unknown)
            rows, images = rows[accepted], images.take(accepted)
        if target.hidden:
            images = with_present_classes(
                basis, images, source, options, target.prompts.logit_scale, reduce_rows=reduce_rows
            )
        yield PreparedTask(rows, images, source, state)
