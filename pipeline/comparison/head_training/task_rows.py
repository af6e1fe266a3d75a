"""The rows a head trains on in one task, as tensors, and the batches drawn from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pipeline.comparison.head_training.growing_head import head_input
from pipeline.comparison.problem import SeedProblem
from pipeline.method.zero_shot import Matrix, unit_rows

if TYPE_CHECKING:
    from torch import Generator, Tensor

VIEW = "original"  # these baselines know no frequency-aware views


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Labelled source rows and unlabelled target rows of one task.

    x (n, d), y (n,): source, with the exemplars of earlier tasks where a method keeps some. target: (m, d).
    first: the number of classes of earlier tasks; the task's own are first … seen − 1.
    """

    x: Tensor
    y: Tensor
    target: Tensor
    first: int
    seen: int

    @property
    def own(self) -> slice:
        """Columns of the task's own classes."""
        return slice(self.first, self.seen)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a task: which (b,), x (b, d), y (b,). progress: 0 at the first step of a training, 1 at its end."""

    rows: Tensor
    x: Tensor
    y: Tensor
    progress: float


def centre_of(problem: SeedProblem) -> Matrix:
    """Return the mean (d,) of the first task's unit source rows: known from the start, and never moved again."""
    rows = unit_rows(problem.source.views[VIEW][_of_task(problem, 0)])
    return rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])


def tasks_of(problem: SeedProblem) -> Iterator[TaskRows]:
    """Yield the rows of each task, in order."""
    import torch

    centre = centre_of(problem)
    seen = 0
    for number, task in enumerate(problem.target):
        first, seen = seen, seen + len(task.classes)
        members = _of_task(problem, number)
        yield TaskRows(
            x=head_input(problem.source.views[VIEW][members], centre),
            y=torch.from_numpy(problem.source.labels[members].astype(np.int64)),
            target=head_input(task.views[VIEW][np.arange(len(task.cosines))], centre),
            first=first,
            seen=seen,
        )


def _of_task(problem: SeedProblem, number: int) -> npt.NDArray[np.bool_]:
    return np.isin(problem.source.labels, problem.target[number].classes)


def draw_rows(n: int, size: int, generator: Generator) -> Iterator[Tensor]:
    """Yield rows (≤ size,) of n without end: each pass takes every row once, in a new order."""
    import torch

    while True:
        yield from torch.split(torch.randperm(n, generator=generator), size)
