"""Prepare a target's tasks for adaptation: leave out rejected images and estimate which classes are present."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipeline.method.adaptation import Referee, pseudo_label
from pipeline.method.rejection import RejectionState, empty_state, reject
from pipeline.method.rows import Index, Matrix64, TargetTask
from pipeline.method.source_model import SourceModel

# A class with less than this fraction of an equal share is considered absent; chosen on Office-Caltech10 and PACS.
LEAST_SHARE = 0.1
ITERATIONS = 50


def present_classes(p: Matrix64) -> Index:
    """Return the columns, ascending, of the classes that are present in a task, given p̂ (n, c) of the candidates.

    The shares π of the classes are the fixed point of

        r_ic = π_c p̂_ic / Σ_j π_j p̂_ij          π_c = mean_i r_ic

    (Saerens, Latinne and Decaestecker 2002, assuming that p̂ was fitted to equal shares). The class with the smallest
    share is removed while that share is below `LEAST_SHARE` of an equal one. The remaining classes are the task's, as
    if they had been given. A removed class attracts no rows and keeps the source's statistics. If n is 0, all remain.

    Examples
    --------
    >>> present_classes(np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0]]))
    array([0, 1])
    """
    present = np.arange(p.shape[1])
    while len(p) and len(present) > 1:
        share = np.full(len(present), 1 / len(present))
        for _ in range(ITERATIONS):
            r = share * p[:, present]
            share = (r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
        if share.min() >= LEAST_SHARE / len(present):
            break
        present = np.delete(present, share.argmin())
    return present


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """A task of a target, prepared for adaptation."""

    images: TargetTask  # accepted images and the classes that they may have
    accepted: Index  # (n,) row numbers of the accepted images in the task
    source: SourceModel  # model after the task
    rejection: RejectionState | None  # state after the task; None without rejection


def prepared_tasks(
    referee: Referee,
    tasks: Iterable[TargetTask],
    sources: Iterable[SourceModel],
    *,
    directions: Matrix64 | None = None,
    estimate_classes: bool = False,
) -> Iterator[PreparedTask]:
    """Yield the prepared tasks in order, given the source model after each.

    With the source's class ``directions``, images of unknown classes are rejected. With ``estimate_classes``, a task's
    classes are candidates, reduced to `present_classes` by first labels without alignment, which needs their shares.
    """
    unaligned = replace(referee, options=replace(referee.options, align_means=False))
    state = None if directions is None else empty_state(directions.shape[1])
    for images, source in zip(tasks, sources, strict=True):
        task, accepted = images, np.arange(len(images))
        if state is not None and directions is not None:
            state, unknown = reject(state, task, directions)
            accepted = np.flatnonzero(~unknown)
            task = task.take(accepted)
        if estimate_classes:
            first = pseudo_label(unaligned, task, source)
            task = replace(task, classes=task.classes[present_classes(first.fused)])
        yield PreparedTask(task, accepted, source, state)
