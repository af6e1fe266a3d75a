"""A small head over unit embeddings whose output grows with the classes, and the rows that it trains on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from pipeline.comparison.labelled_tasks import VIEW
from pipeline.method.rows import Matrix, as_array, unit_rows
from pipeline.problem.seed import Seed

HIDDEN = 128  # width of the hidden layer


@dataclass(frozen=True, eq=False)
class GrowingHead:
    """relu(x Vᵀ + a) Wᵀ + b: one hidden layer shared by all classes, one output row per class seen."""

    # ``hidden_weight`` V (h, d), ``hidden_bias`` a (h,), ``output_weight`` W (C, h), ``output_bias`` b (C,)
    parameters: dict[str, Tensor]

    @property
    def classes(self) -> int:
        """Number of classes seen."""
        return len(self.parameters["output_bias"])

    def hidden(self, x: Tensor) -> Tensor:
        """Return the hidden layer (n, h) of rows (n, d): the features that a method learns."""
        return (x @ self.parameters["hidden_weight"].T + self.parameters["hidden_bias"]).relu()

    def output(self, hidden: Tensor) -> Tensor:
        """Return the logits (n, C) of hidden rows (n, h)."""
        return hidden @ self.parameters["output_weight"].T + self.parameters["output_bias"]

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits (n, C) of rows (n, d)."""
        return self.output(self.hidden(x))

    def grown(self, classes: int, generator: Generator) -> GrowingHead:
        """Return the head with so many more classes, whose output rows are drawn; the others are kept."""
        old = self.parameters
        width = old["output_weight"].shape[1]
        weight = torch.randn(classes, width, generator=generator) / math.sqrt(width)
        new = {"output_weight": weight, "output_bias": torch.zeros(classes)}
        both = {name: torch.cat([old[name].detach(), rows]) for name, rows in new.items()}
        return GrowingHead({n: t.detach().requires_grad_() for n, t in (old | both).items()})

    def frozen(self) -> GrowingHead:
        """Return a copy that training does not change."""
        return GrowingHead({name: t.detach().clone() for name, t in self.parameters.items()})


def new_head(d: int, generator: Generator, *, width: int = HIDDEN) -> GrowingHead:
    """Return a head without classes for rows of width d, drawn as He et al. (2015) do for relu."""
    weight = torch.randn(width, d, generator=generator) * math.sqrt(2 / d)
    return GrowingHead(
        {
            "hidden_weight": weight.requires_grad_(),
            "hidden_bias": torch.zeros(width, requires_grad=True),
            "output_weight": torch.zeros(0, width, requires_grad=True),
            "output_bias": torch.zeros(0, requires_grad=True),
        }
    )


def head_input(x: Matrix, centre: Matrix) -> Tensor:
    """Return embeddings (n, d) as float32 input of a head: directions from a centre (d,), rows of length sqrt(d).

    Unit embeddings share most of their direction, which the centre removes. With length sqrt(d) numbers are of order
    one, as `new_head` expects.
    """
    directions = unit_rows(unit_rows(x) - centre)
    return torch.from_numpy((math.sqrt(x.shape[1]) * directions).astype(np.float32))


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Labelled source rows and unlabelled target rows of one task."""

    x: Tensor  # (n, d), with the exemplars of earlier tasks for a method that has a memory
    y: Tensor  # (n,)
    target: Tensor  # (m, d)
    first: int  # the task's own classes are first, ..., classes_seen - 1
    classes_seen: int

    @property
    def own(self) -> slice:
        """Columns of the task's own classes."""
        return slice(self.first, self.classes_seen)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a task."""

    index: Tensor  # (b,) positions in the task's rows
    x: Tensor  # (b, d)
    y: Tensor  # (b,)
    progress: float  # 0 at the first step of a training, 1 at its end


def input_centre(seed: Seed) -> Matrix:
    """Return the mean (d,) of the first task's unit source rows, which never changes afterwards."""
    rows = unit_rows(np.asarray(seed.source.views[VIEW][_source_index(seed, seed.tasks[0])]))
    return rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])


def task_rows(seed: Seed) -> Iterator[TaskRows]:
    """Yield the rows of each task, in order."""
    centre = input_centre(seed)
    classes_seen = 0
    for task in seed.target.tasks:
        first, classes_seen = classes_seen, classes_seen + len(task.classes)
        index = _source_index(seed, task.classes)
        yield TaskRows(
            x=head_input(np.asarray(seed.source.views[VIEW][index]), centre),
            y=torch.from_numpy(seed.source.labels[index].astype(np.int64)),
            target=head_input(as_array(task.views[VIEW]), centre),
            first=first,
            classes_seen=classes_seen,
        )


def _source_index(seed: Seed, classes: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    return np.flatnonzero(np.isin(seed.source.labels, classes))


def draw_rows(n: int, size: int, generator: Generator) -> Iterator[Tensor]:
    """Yield positions (at most ``size``) of n rows without end: each pass takes every row once, in a new order."""
    while True:
        yield from torch.split(torch.randperm(n, generator=generator), size)
