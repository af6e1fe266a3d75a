"""The training loop of all head methods: tasks in order, labelled source rows, a fixed number of steps for each task.

`FineTuning` is the loop with nothing added; a method overrides the hooks where it differs.

Without a memory of earlier classes the cross-entropy is over the task's own classes; with a memory, over all classes
seen. This is the convention of the survey that the paper cites (Masana et al.) and of its library FACIL. Over all
classes seen and without rows of the earlier ones, fine-tuning lowers every earlier logit and ends at the last task's
share of the accuracy, 1/T, which is where the paper's table has these baselines.

Steps, Adam's rate, the strengths of EWC, SI, MAS and RWalk, the classes of the loss and the centring of the input were
chosen on source data alone: trained on 80 % of the train rows of Office-Caltech10's four domains and scored by A_T on
the other 20 %, no target row or label; strengths by powers of ten. LwF's strength is its paper's, within 0.2 points of
the best. DANN's numbers are its paper's, since source accuracy cannot choose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Lock

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Adam, Optimizer

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.head_training.growing_head import (
    Batch,
    GrowingHead,
    TaskRows,
    draw_rows,
    head_input,
    input_centre,
    new_head,
    task_rows,
)
from pipeline.comparison.labelled_tasks import target_test_rows
from pipeline.method.rows import Labels
from pipeline.problem.seed import Seed


@dataclass(frozen=True)
class Training:
    """How long and how fast to train, the same for every method."""

    steps: int = 100  # of each task, however few its rows
    passes: int = 5  # over a task's rows at least: a large task takes more steps
    batch: int = 128
    rate: float = 1e-3

    def steps_for(self, n: int) -> int:
        """Return the number of steps for n rows."""
        return max(self.steps, self.passes * -(-n // self.batch))


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a training."""

    batch: Batch
    gradient: Mapping[str, Tensor]  # of the loss without the penalty, by parameter
    before: Mapping[str, Tensor]  # the parameters before the step

    def loss_decrease(self, head: GrowingHead) -> dict[str, Tensor]:
        """Return −∂L/∂θ · Δθ for each number of each parameter: its share of the decrease of the loss."""
        return {
            name: -gradient * (head.parameters[name].detach() - self.before[name])
            for name, gradient in self.gradient.items()
        }


class FineTuning:
    """A head trained on one task after another, with hooks for methods that do something against forgetting."""

    generator: Generator  # the only randomness; set by `run_head`

    def __init__(self, training: Training | None = None) -> None:
        self.training = training or Training()

    def rehearsed(self, rows: TaskRows) -> TaskRows:
        """Return the rows to train on: the task's, and what the method kept of earlier ones."""
        return rows

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Prepare for a task: the head has grown and is not trained yet."""

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return the loss of a batch: here the cross-entropy among the task's own classes."""
        return cross_entropy(head.logits(batch.x)[:, rows.own], batch.y - rows.first)

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return a penalty on the parameters, whatever the batch."""

    def optimiser(self, parameters: list[Tensor], training: Training) -> Optimizer:
        """Return the optimiser of one training."""
        return Adam(parameters, lr=training.rate)

    def learning_rate(self, training: Training, progress: float) -> float:  # noqa: ARG002
        """Return the learning rate at a progress from 0 to 1."""
        return training.rate

    def more_parameters(self) -> list[Tensor]:
        """Return what is trained beside the head."""
        return []

    def after_step(self, head: GrowingHead, rows: TaskRows, step: Step) -> None:
        """Observe a step."""

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Keep what later tasks need."""

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) of each row among all classes seen."""
        return head.logits(x).argmax(dim=1)


def head_method(title: str, method: type[FineTuning]) -> ComparedMethod:
    """Return a head method as a compared method; all of them read source rows in every task."""
    return ComparedMethod(lambda seed: run_head(seed, method()), f"{title} (head)", "head", source_samples=True)


def run_head(seed: Seed, method: FineTuning) -> list[Labels]:
    """Train a head by a fresh ``method`` on a seed's tasks in order; return the classes (n,) predicted after each."""
    with single_thread():
        generator = method.generator = torch.Generator().manual_seed(seed.number)
        test = head_input(target_test_rows(seed), input_centre(seed))
        head = new_head(test.shape[1], generator)
        predictions: list[Labels] = []
        for task in task_rows(seed):
            head = head.grown(task.classes_seen - task.first, generator)
            rows = method.rehearsed(task)
            method.begin_task(head, rows)
            train(method, head, rows, method.training)
            method.end_task(head, rows)
            with torch.no_grad():
                predictions.append(method.predict(head, test).numpy().astype(np.intp))
        return predictions


def train(method: FineTuning, head: GrowingHead, rows: TaskRows, training: Training) -> None:
    """Train a head in place on one task's rows; without rows nothing happens."""
    if not len(rows.x):
        return
    parameters = [*head.parameters.values(), *method.more_parameters()]
    optimiser = method.optimiser(parameters, training)
    steps = training.steps_for(len(rows.x))
    batches = draw_rows(len(rows.x), training.batch, method.generator)
    for number, index in enumerate(islice(batches, steps)):
        batch = Batch(index, rows.x[index], rows.y[index], number / steps)
        loss = method.loss(head, rows, batch)
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        before = head.frozen().parameters
        total = _with_penalty(gradients, method.penalty(head), parameters)
        for parameter, gradient in zip(parameters, total, strict=True):
            parameter.grad = gradient
        optimiser.param_groups[0]["lr"] = method.learning_rate(training, batch.progress)
        optimiser.step()
        step = Step(batch, dict(zip(head.parameters, gradients, strict=False)), before)
        method.after_step(head, rows, step)


def _with_penalty(gradients: tuple[Tensor, ...], penalty: Tensor | None, parameters: list[Tensor]) -> list[Tensor]:
    """Return the gradients of loss and penalty together; the penalty need not depend on every parameter."""
    if penalty is None:
        return list(gradients)
    more = torch.autograd.grad(penalty, parameters, allow_unused=True)
    return [g if p is None else g + p for g, p in zip(gradients, more, strict=True)]


_lock = Lock()
_inside = 0
_outside = 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one torch thread, and restore the number of threads afterwards.

    Seeds may train side by side in Python threads. A new thread starts with the number that any thread set last, so
    the second to enter would mistake the first one's 1 for the number to restore: only the first one records it.
    """
    global _inside, _outside  # noqa: PLW0603  a process has one number of threads
    with _lock:
        if not _inside:
            _outside = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            # also if others are inside: this changes this thread and threads to come, not theirs
            torch.set_num_threads(_outside)


TEMPERATURE = 2.0  # of both LwF and EEIL, in their papers


def distillation(logits: Tensor, old: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return the mean over rows of −Σ_c p_c log q_c, p = softmax(old / T), q = softmax(logits / T), both (n, C)."""
    return cross_entropy(logits / temperature, (old / temperature).softmax(dim=1))
