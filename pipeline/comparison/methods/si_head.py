"""Synaptic intelligence on a head (Zenke, Poole and Ganguli, ICML 2017).

Eq. (3): ω = −Σ over the task's steps of ∂L/∂θ · Δθ, a parameter's own share of the decrease of the loss. Eq. (5):
Ω = Σ over tasks of ω / (Δ² + ξ), Δ the parameter's change over the task. Eq. (4): L + c Σ Ω (θ̃ − θ)². The gradient is
that of the task's loss without the penalty. A negative ω (a parameter that made the loss worse) counts as zero:
a negative importance would reward drift.

Head-only: the backbone is frozen, so only the head's layers have an importance.
"""

from __future__ import annotations

from pipeline.comparison.head_training.anchored_penalty import AnchoredTuning, summed
from pipeline.comparison.head_training.growing_head import GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import Step, head_method

DAMPING = 0.1  # ξ


class SynapticIntelligence(AnchoredTuning):
    """Fine-tuning with eq. (4)."""

    strength = 1.0  # c

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:  # noqa: ARG002
        """Set the path integral to zero."""
        self.start = head.frozen().parameters
        self.path = {name: start * 0 for name, start in self.start.items()}

    def after_step(self, head: GrowingHead, rows: TaskRows, step: Step) -> None:  # noqa: ARG002
        """Add a step to the path integral, eq. (3)."""
        self.path = summed(self.path, step.loss_decrease(head))

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:  # noqa: ARG002
        """Add the task's importances, eq. (5)."""
        change = {n: head.parameters[n].detach() - start for n, start in self.start.items()}
        importance = {n: path.clamp(min=0) / (change[n] ** 2 + DAMPING) for n, path in self.path.items()}
        self.add_importance(head, importance)


METHODS = {"si-head": head_method("SI", SynapticIntelligence)}
