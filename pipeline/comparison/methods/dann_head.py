"""Domain-adversarial training of a head (Ganin et al., JMLR 2016).

Eq. (9): the cross-entropy of labelled source rows, less λ times the loss of a discriminator that tells the features of
source rows from those of the target's unlabelled rows. The discriminator minimises its own loss, the features
maximise it, by a gradient reversal layer; λ grows from 0 to 1 over a task's training (sec. 5.2.2, γ = 10). The
features are the head's hidden layer. DANN has no defence against forgetting: tasks are trained one after another.

Head-only: the backbone is frozen, so that only the hidden layer's features are made alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.domain_discriminator import (
    DomainDiscriminator,
    adversarial_strength,
    reversed_gradient,
)
from pipeline.comparison.head_training.optimisers import AnnealedMomentum, Optimiser
from pipeline.comparison.head_training.task_rows import draw_rows
from pipeline.comparison.head_training.training_loop import FineTuning, cross_entropy, run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import Batch, TaskRows
    from pipeline.comparison.head_training.training_loop import Training


RATE = 0.01  # μ_0, sec. 5.2.2


class DomainAdversarial(FineTuning):
    """Fine-tuning with eq. (9); the discriminator lives on from task to task."""

    discriminator: DomainDiscriminator | None = None

    def begin_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:
        """Draw the discriminator before the first task, and the order of the target's rows."""
        if self.discriminator is None:
            width = len(head.parameters["hidden_bias"])
            self.discriminator = DomainDiscriminator(width, generator)
        self.target_rows = draw_rows(len(rows.target), self.training.batch, generator)

    def optimiser(self, parameters: list[Tensor], how: Training) -> Optimiser:  # noqa: ARG002
        """Return the paper's own optimiser.

        Not Adam: once the source rows are fitted, only the adversarial gradient is left, and Adam makes full steps of
        it however small it is. Measured on held-out source rows with source rows for a target, where there is nothing
        to adapt to: A_T 37 % with Adam, 77 % with this, 81 % with this and no adversary.
        """
        return AnnealedMomentum(parameters, RATE)

    def more_parameters(self) -> list[Tensor]:
        """Return the discriminator's."""
        return self.discriminator.parameters if self.discriminator else []

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return the cross-entropy plus the discriminator's loss behind the gradient reversal layer."""
        z = head.hidden(batch.x)
        task = cross_entropy(head.output(z)[:, rows.own], batch.y - rows.first)
        if self.discriminator is None or not len(rows.target):
            return task
        target = head.hidden(rows.target[next(self.target_rows)])
        strength = adversarial_strength(batch.progress)
        source, target = (reversed_gradient(z, strength) for z in (z, target))
        return task + self.discriminator.loss(source, target)


METHODS = {
    "dann-head": ComparedMethod(
        lambda problem: run_head(problem, DomainAdversarial()),
        "DANN (head)",
        "head",
        source_samples=True,
    )
}
