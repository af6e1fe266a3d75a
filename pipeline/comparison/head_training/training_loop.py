"""The training loop of all head methods: tasks in order, source rows with labels, a fixed number of Adam steps each.

`FineTuning` is the loop with nothing added; a method overrides the hooks where it departs from it.

Without a memory of earlier classes the cross-entropy is over the task's own classes, with one over all classes seen:
the convention of the class-incremental survey that the paper cites (Masana et al.) and of its library FACIL. Over all
classes seen, with no row of the earlier ones, fine-tuning pushes every earlier logit down and ends at the last task's
share of the accuracy: 1/T, which is where the paper's table has these baselines.

What was chosen by measuring (steps, Adam's rate, strengths of EWC, SI, MAS and RWalk, what the loss runs over, the
centring of the input) was chosen on source data alone: Office-Caltech10's four domains, trained on 80 % of a domain's
train rows and scored by A_T on the other 20 %, no target row or label; strengths by powers of ten. LwF's is its
paper's, within 0.2 points of the best. Nothing is chosen for DANN, whose point source accuracy cannot see: its numbers
are its paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pipeline.comparison.head_training.growing_head import GrowingHead, head_input, new_head
from pipeline.comparison.head_training.optimisers import Adam, Optimiser
from pipeline.comparison.head_training.single_thread import single_thread
from pipeline.comparison.head_training.task_rows import (
    VIEW,
    Batch,
    TaskRows,
    centre_of,
    draw_rows,
    tasks_of,
)
from pipeline.comparison.problem import SeedProblem
from pipeline.method.class_statistics import Labels

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(frozen=True)
class Training:
    """How long and how fast: the same for every method.

    steps: of each task, so that 28 rows learn as long as 600; but never fewer than ``passes`` over a task's rows.
    """

    steps: int = 100
    passes: int = 5
    batch: int = 128
    rate: float = 1e-3

    def steps_for(self, n: int) -> int:
        """Return the number of steps on n rows."""
        return max(self.steps, self.passes * -(-n // self.batch))


class FineTuning:
    """A head trained on one task after another with no defence against forgetting, and the hooks of those that have."""

    def __init__(self, training: Training = Training()) -> None:  # noqa: B008  frozen
        self.training = training

    def rehearsed(self, rows: TaskRows) -> TaskRows:
        """Return what to train on in this task: ``rows``, and what the method kept of earlier ones."""
        return rows

    def begin_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:
        """Prepare for a task: ``head`` has grown, nothing is trained."""

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return the loss of a batch: here the cross-entropy among the task's own classes."""
        return cross_entropy(head.logits(batch.x)[:, rows.own], batch.y - rows.first)

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return the price of the parameters themselves, whatever the batch."""

    def optimiser(self, parameters: list[Tensor], how: Training) -> Optimiser:
        """Return what moves the parameters in one training."""
        return Adam(parameters, how.rate)

    def more_parameters(self) -> list[Tensor]:
        """Return what trains beside the head."""
        return []

    def after_step(self, head: GrowingHead, rows: TaskRows, step: Step) -> None:
        """Look at a step that was taken."""

    def end_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:
        """Keep what later tasks need."""

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) of each row among all classes seen."""
        return head.logits(x).argmax(dim=1)


@dataclass(frozen=True, eq=False)
class Step:
    """A step taken: its batch; by name the gradient of the loss without the penalty, and the parameters before."""

    batch: Batch
    gradient: Mapping[str, Tensor]
    before: Mapping[str, Tensor]


def run_head(problem: SeedProblem, method: FineTuning) -> list[Labels]:
    """Return the classes predicted after each task by a head trained by ``method``."""
    import torch

    with single_thread():
        generator = torch.Generator().manual_seed(problem.seed)
        test = head_input(problem.test.views[VIEW], centre_of(problem))
        head = new_head(test.shape[1], generator)
        predictions: list[Labels] = []
        for task in tasks_of(problem):
            head = head.grown(task.seen - task.first, generator)
            rows = method.rehearsed(task)
            method.begin_task(head, rows, generator)
            train(method, head, rows, generator)
            method.end_task(head, rows, generator)
            with torch.no_grad():
                predictions.append(method.predict(head, test).numpy().astype(np.intp))
        return predictions


def train(
    method: FineTuning,
    head: GrowingHead,
    rows: TaskRows,
    generator: Generator,
    training: Training | None = None,
) -> None:
    """Train the head, in place, on one task's rows; without rows there is nothing to learn."""
    import torch

    how = training or method.training
    if not len(rows.x):
        return
    names = list(head.parameters)
    parameters = [*head.parameters.values(), *method.more_parameters()]
    optimiser = method.optimiser(parameters, how)
    steps = how.steps_for(len(rows.x))
    for number, drawn in enumerate(islice(draw_rows(len(rows.x), how.batch, generator), steps)):
        batch = Batch(drawn, rows.x[drawn], rows.y[drawn], number / steps)
        loss = method.loss(head, rows, batch)
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        before = {name: head.parameters[name].detach().clone() for name in names}
        total = _with_penalty(gradients, method.penalty(head), parameters)
        optimiser.step(total, batch.progress)
        step = Step(batch, dict(zip(names, gradients, strict=False)), before)
        method.after_step(head, rows, step)


def _with_penalty(
    gradients: tuple[Tensor, ...], penalty: Tensor | None, parameters: list[Tensor]
) -> list[Tensor]:
    """Return the gradients of loss and penalty together; the penalty touches the parameters it likes."""
    import torch

    if penalty is None:
        return list(gradients)
    priced = torch.autograd.grad(penalty, parameters, allow_unused=True)
    return [g if p is None else g + p for g, p in zip(gradients, priced, strict=True)]


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of −log softmax(logits (n, C))[y (n,)]."""
    return -logits.log_softmax(dim=1).gather(1, y[:, None]).mean()
