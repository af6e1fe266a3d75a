"""A target's tasks as adapting sees them: without the images that are rejected, with the classes that are there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipeline.method.adaptation import Referee, pseudo_label
from pipeline.method.rejection import RejectionState, empty_state, reject
from pipeline.method.rows import Index, Matrix64, TargetTask
from pipeline.method.source_model import SourceModel

# A class with less than this part of an equal share is taken to be absent; chosen on Office-Caltech10 and PACS.
LEAST_SHARE = 0.1
ITERATIONS = 50


def present_classes(p: Matrix64) -> Index:
    """Return the columns, ascending, of the classes that a task holds, of its p̂ (n, c) over the candidates.

    The shares π of the classes are the fixed point of

        r_ic = π_c p̂_ic / Σ_j π_j p̂_ij          π_c = mean_i r_ic

    (Saerens, Latinne and Decaestecker 2002, with equal shares where p̂ comes from). The class of the least share is
    left out while that share is below `LEAST_SHARE` of an equal one. The rest are the task's classes, as if they had
    been given: one that is left out draws no rows to itself and keeps the source's statistics. All are there if n is 0.

    Examples
    --------
    >>> present_classes(np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0]]))
    array([0, 1])
    """
    alive = np.arange(p.shape[1])
    while len(p) and len(alive) > 1:
        share = np.full(len(alive), 1 / len(alive))
        for _ in range(ITERATIONS):
            r = share * p[:, alive]
            share = (r / np.maximum(r.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
        if share.min() >= LEAST_SHARE / len(alive):
            break
        alive = np.delete(alive, share.argmin())
    return alive


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
    directions: Matrix64 | None = None,
    estimate_classes: bool = False,
) -> Iterator[PreparedTask]:
    """Yield the tasks in order, given the source model after each; with the source's `directions`, images are rejected.

    With ``estimate_classes`` a task's classes are candidates, and those that its images are of are `present_classes`. p̂
    is that of the first labels without alignment, which would have to know the shares of the classes.
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
