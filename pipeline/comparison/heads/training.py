"""Train a head whose output grows with the classes, on labelled source rows, task after task.

`FineTuning` is plain fine-tuning; methods override its hooks.

Without a memory of earlier classes the cross-entropy is over the task's own classes, with a memory over all classes
seen. This is the convention of the survey that the paper cites (Masana et al.) and of its library FACIL. With
cross-entropy over all classes seen but no rows of the earlier ones, fine-tuning lowers every earlier logit and ends at
the last task's share of the accuracy, 1/T, the level of these baselines in the paper's table.

Steps, Adam's rate, the strengths of EWC, SI, MAS and RWalk, the classes of the loss and the centring of the input were
chosen on source data alone, without any target row or label: by A_T on 20 % of the train rows of Office-Caltech10's
four domains after training on the other 80 %, strengths by powers of ten. LwF's strength is its paper's, within 0.2
points of the best. DANN's numbers are its paper's, because source accuracy cannot choose them.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from threading import Lock
from typing import Self

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Adam, Optimizer

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.labelled_tasks import VIEW, source_tasks, target_test_rows
from pipeline.method.rows import Labels, Matrix, as_array, unit_rows
from pipeline.problem.seed import Seed

HIDDEN = 128  # width of the hidden layer
TEMPERATURE = 2.0  # distillation temperature in the papers of both LwF and EEIL


@dataclass(frozen=True, eq=False)
class GrowingHead:
    """relu(x Vᵀ + a) Wᵀ + b: one hidden layer shared by all classes, one output row per class seen."""

    # `hidden_weight` V (h, d), `hidden_bias` a (h,), `output_weight` W (C, h), `output_bias` b (C,)
    parameters: dict[str, Tensor]

    def hidden(self, x: Tensor) -> Tensor:
        """Return the hidden layer (n, h) of rows (n, d), the features that a method learns."""
        return (x @ self.parameters["hidden_weight"].T + self.parameters["hidden_bias"]).relu()

    def output(self, hidden: Tensor) -> Tensor:
        """Return the logits (n, C) of hidden rows (n, h)."""
        return hidden @ self.parameters["output_weight"].T + self.parameters["output_bias"]

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits (n, C) of rows (n, d)."""
        return self.output(self.hidden(x))

    def grown(self, classes: int, generator: Generator) -> Self:
        """Return the head with a number of additional classes, whose output rows are drawn at random."""
        old = self.parameters
        width = old["output_weight"].shape[1]
        weight = torch.randn(classes, width, generator=generator) / math.sqrt(width)
        new = {"output_weight": weight, "output_bias": torch.zeros(classes)}
        output = {name: torch.cat([old[name].detach(), rows]) for name, rows in new.items()}
        return replace(self, parameters={n: t.detach().requires_grad_() for n, t in (old | output).items()})

    def frozen(self) -> Self:
        """Return a copy that training does not change."""
        return replace(self, parameters={name: t.detach().clone() for name, t in self.parameters.items()})


def new_head(d: int, generator: Generator, *, width: int = HIDDEN) -> GrowingHead:
    """Return a head without classes for rows of width d, initialised as in He et al. (2015) for relu."""
    tensors = {
        "hidden_weight": torch.randn(width, d, generator=generator) * math.sqrt(2 / d),
        "hidden_bias": torch.zeros(width),
        "output_weight": torch.zeros(0, width),
        "output_bias": torch.zeros(0),
    }
    return GrowingHead({name: tensor.requires_grad_() for name, tensor in tensors.items()})


@dataclass(frozen=True, eq=False)
class HeadTask:
    """Labelled source rows and unlabelled target rows of one task, as input of a head."""

    x: Tensor  # (n, d), including exemplars of earlier tasks if the method has a memory
    y: Tensor  # (n,)
    target: Tensor  # (m, d)
    first: int  # the task's own classes are first, ..., classes_seen - 1
    classes_seen: int

    @property
    def columns(self) -> slice:
        """Columns of the task's own classes."""
        return slice(self.first, self.classes_seen)


def head_tasks(seed: Seed) -> Iterator[HeadTask]:
    """Yield the rows of each task, in order."""
    centre = input_centre(seed)
    for source, target in zip(source_tasks(seed), seed.target.tasks, strict=True):
        x, y = head_input(source.rows, centre), torch.from_numpy(source.labels.astype(np.int64))
        unlabelled = head_input(as_array(target.views[VIEW]), centre)
        yield HeadTask(x, y, unlabelled, int(source.classes[0]), source.classes_seen)


def head_input(x: Matrix, centre: Matrix) -> Tensor:
    """Convert embeddings (n, d) to float32 input of a head: directions from a centre (d,), scaled to length sqrt(d).

    Unit embeddings share most of their direction, which the centre removes. The length sqrt(d) makes numbers of order
    one, as `new_head` expects.
    """
    directions = unit_rows(unit_rows(x) - centre)
    return torch.from_numpy((math.sqrt(x.shape[1]) * directions).astype(np.float32))


def input_centre(seed: Seed) -> Matrix:
    """Return the mean (d,) of the first task's unit source rows, which is used for all tasks."""
    return np.asarray(unit_rows(next(source_tasks(seed)).rows).mean(axis=0))


@dataclass(frozen=True)
class Training:
    """Duration and learning rate of a training."""

    steps: int = 100  # minimum number of steps per task
    passes: int = 5  # minimum number of passes over a task's rows: a large task takes more steps
    batch: int = 128
    rate: float = 1e-3

    def steps_for(self, n: int) -> int:
        """Return the number of steps for n rows."""
        return max(self.steps, self.passes * -(-n // self.batch))


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """A batch of a task's rows."""

    index: Tensor  # (b,) positions in the task's rows
    x: Tensor  # (b, d)
    y: Tensor  # (b,)
    progress: float  # of the training, 0 at its first step, 1 at its end


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """One step of a training."""

    batch: TrainingBatch
    gradient: Mapping[str, Tensor]  # gradient of the loss without the penalty, by parameter
    before: Mapping[str, Tensor]  # parameters before the step

    def loss_decrease(self, head: GrowingHead) -> dict[str, Tensor]:
        """Return −∂L/∂θ · Δθ by parameter, each number's share of the decrease of the loss."""
        return {
            name: -gradient * (head.parameters[name].detach() - self.before[name])
            for name, gradient in self.gradient.items()
        }


class FineTuning:
    """Plain fine-tuning on one task after another, with hooks for methods that counteract forgetting."""

    training = Training()
    generator: Generator  # only source of randomness; set by `run_head`

    def rehearsed(self, task: HeadTask) -> HeadTask:
        """Return the rows to train on: the task's rows and any rows kept from earlier tasks."""
        return task

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Prepare for a task after the head has grown and before it is trained."""

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:
        """Return the loss of a batch, by default the cross-entropy among the task's own classes."""
        return cross_entropy(head.logits(batch.x)[:, task.columns], batch.y - task.first)

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return a penalty on the parameters that does not depend on the batch, or None."""

    def optimiser(self, parameters: list[Tensor], training: Training) -> Optimizer:
        """Return the optimiser of one training."""
        return Adam(parameters, lr=training.rate)

    def learning_rate(self, training: Training, progress: float) -> float:  # noqa: ARG002
        """Return the learning rate at a progress between 0 and 1."""
        return training.rate

    def extra_parameters(self) -> list[Tensor]:
        """Return parameters that are trained in addition to the head's."""
        return []

    def after_step(self, head: GrowingHead, task: HeadTask, step: TrainingStep) -> None:
        """Record statistics of a step."""

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record the state that later tasks need."""

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) of each row among all classes seen."""
        return head.logits(x).argmax(dim=1)


def head_method(title: str, method: type[FineTuning]) -> ComparedMethod:
    """Return a head method as a compared method, which reads source rows in every task."""
    return ComparedMethod(lambda seed: run_head(seed, method()), f"{title} (head)", "head", source_samples=True)


def run_head(seed: Seed, method: FineTuning) -> list[Labels]:
    """Train a head on a seed's tasks by a new ``method``; return the predicted classes (n,) after each task."""
    with single_thread():
        generator = method.generator = torch.Generator().manual_seed(seed.number)
        test = head_input(target_test_rows(seed), input_centre(seed))
        head = new_head(test.shape[1], generator)
        predictions: list[Labels] = []
        for own_rows in head_tasks(seed):
            head = head.grown(own_rows.classes_seen - own_rows.first, generator)
            task = method.rehearsed(own_rows)
            method.begin_task(head, task)
            train(method, head, task, method.training)
            method.end_task(head, task)
            with torch.no_grad():
                predictions.append(method.predict(head, test).numpy().astype(np.intp))
        return predictions


def train(method: FineTuning, head: GrowingHead, task: HeadTask, training: Training) -> None:
    """Train a head in place on one task's rows."""
    parameters = [*head.parameters.values(), *method.extra_parameters()]
    optimiser = method.optimiser(parameters, training)
    steps = training.steps_for(len(task.x))
    batches = draw_rows(len(task.x), training.batch, method.generator)
    for number, index in enumerate(islice(batches, steps)):
        batch = TrainingBatch(index, task.x[index], task.y[index], number / steps)
        gradients = torch.autograd.grad(method.loss(head, task, batch), parameters, materialize_grads=True)
        applied, penalty = gradients, method.penalty(head)
        if penalty is not None:
            penalty_gradients = torch.autograd.grad(penalty, parameters, materialize_grads=True)
            applied = tuple(a + b for a, b in zip(gradients, penalty_gradients, strict=True))
        for parameter, gradient in zip(parameters, applied, strict=True):
            parameter.grad = gradient
        before = head.frozen().parameters
        optimiser.param_groups[0]["lr"] = method.learning_rate(training, batch.progress)
        optimiser.step()
        method.after_step(head, task, TrainingStep(batch, dict(zip(head.parameters, gradients, strict=False)), before))


def draw_rows(n: int, size: int, generator: Generator) -> Iterator[Tensor]:
    """Yield batches of at most ``size`` positions of n rows forever; each pass draws a new order of all rows."""
    while True:
        yield from torch.split(torch.randperm(n, generator=generator), size)


def distillation(logits: Tensor, old: Tensor) -> Tensor:
    """Return the mean over rows of −Σ_c p_c log q_c with p = softmax(old / T) and q = softmax(logits / T), (n, C)."""
    return cross_entropy(logits / TEMPERATURE, (old / TEMPERATURE).softmax(dim=1))


_lock = Lock()
_inside = 0
_outside = 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one torch thread, and restore the number of threads afterwards.

    Seeds may train at the same time in Python threads. A new thread starts with the number that any thread set last, so
    the second one to enter would mistake the first one's 1 for the number to restore. Only the first one records it.
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
            # safe even if other threads are inside, because it affects only this thread and future ones
            torch.set_num_threads(_outside)
