"""A target's tasks as adapting sees them: without the images that are rejected, with the classes that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipeline.method.adaptation import pseudo_label
from pipeline.method.presence import present_classes
from pipeline.method.referee import Referee
from pipeline.method.rejection import RejectionState, empty_state, reject
from pipeline.method.rows import Index, Matrix64, TargetTask
from pipeline.method.source_model import SourceModel


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """A task of a target."""

    images: TargetTask  # that are not rejected, and the classes that they may have
    accepted: Index  # (n,) which of the task's images these are
    source: SourceModel  # after the task
    rejection: RejectionState | None  # after the task; None if nothing is rejected


def prepared_tasks(
    referee: Referee,
    tasks: Iterable[TargetTask],
    sources: Iterable[SourceModel],
    *,
    class_means: Matrix64 | None = None,
    estimate_classes: bool = False,
) -> Iterator[PreparedTask]:
    """Yield the tasks in order.

    Parameters
    ----------
    sources : iterable of SourceModel
        After each task.
    class_means : ndarray of shape (K, d), optional
        The source's means of the unit embeddings of all its classes, for `rejection`.
    estimate_classes : bool, default False
        A task's classes are candidates, and those that its images are of are estimated (`presence`). p̂ is that of the
        first labels without alignment, which would have to know the shares of the classes.
    """
    state, unaligned = None, replace(referee, options=replace(referee.options, align_means=False))
    if referee.options.reject != "none" and class_means is not None:
        state = empty_state(class_means.shape[1])
    for images, source in zip(tasks, sources, strict=True):
        task, accepted = images, np.arange(len(images))
        if state is not None and class_means is not None:
            state, unknown = reject(state, task, class_means)
            accepted = np.flatnonzero(~unknown)
            task = task.take(accepted)
        if estimate_classes:
            first = pseudo_label(unaligned, task, source)
            task = replace(task, classes=task.classes[present_classes(first.fused)])
        yield PreparedTask(task, accepted, source, state)
