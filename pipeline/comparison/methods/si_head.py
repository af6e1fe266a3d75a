"""Synaptic intelligence on a head (Zenke, Poole and Ganguli, ICML 2017).

Eq. (3): ω = −Σ over the task's steps of ∂L/∂θ · Δθ, a parameter's own share of the fall of the loss. Eq. (5):
Ω = Σ over tasks of ω / (Δ² + ξ), Δ the parameter's way over the task. Eq. (4): L + c Σ Ω (θ̃ − θ)². The gradient is
that of the task's loss without the surrogate. A negative ω (a parameter that made the loss worse) counts as zero:
a negative importance would reward drift.

Head-only: the backbone is frozen, so that only the head's layers have an importance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.anchored_penalty import Anchor, anchored, summed
from pipeline.comparison.head_training.training_loop import FineTuning, run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import TaskRows
    from pipeline.comparison.head_training.training_loop import Step

STRENGTH = 1.0  # c
DAMPING = 0.1  # ξ


class SynapticIntelligence(FineTuning):
    """Fine-tuning with eq. (4)."""

    strength = STRENGTH
    anchor: Anchor | None = None

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return c Σ Ω (θ̃ − θ)²."""
        return None if self.anchor is None else self.strength * self.anchor.penalty(head)

    def begin_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Start the path integral anew."""
        self.start = head.frozen().parameters
        self.path = {name: start * 0 for name, start in self.start.items()}

    def after_step(self, head: GrowingHead, rows: TaskRows, step: Step) -> None:  # noqa: ARG002
        """Add a step to the path integral, eq. (3)."""
        for name, path in self.path.items():
            path.sub_(step.gradient[name] * (head.parameters[name].detach() - step.before[name]))

    def end_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Add the task's importances, eq. (5), and anchor where the task ended."""
        way = {name: head.parameters[name].detach() - start for name, start in self.start.items()}
        new = {n: path.clamp(min=0) / (way[n] ** 2 + DAMPING) for n, path in self.path.items()}
        earlier = None if self.anchor is None else self.anchor.importance
        self.anchor = anchored(head, summed(earlier, new))


METHODS = {
    "si-head": ComparedMethod(
        lambda problem: run_head(problem, SynapticIntelligence()),
        "SI (head)",
        "head",
        source_samples=True,
    )
}
