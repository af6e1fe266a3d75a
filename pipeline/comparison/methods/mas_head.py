"""Memory aware synapses on a head (Aljundi et al., ECCV 2018).

Eqs. (2), (3): Ω = mean over rows of |∂‖F(x)‖²/∂θ|, F the outputs, L = L_n + λ Σ Ω (θ − θ*)²; Ω adds up over tasks.
Ω needs no label, which the paper uses to adapt it to unlabelled rows of where the model will be used: here it is
measured on the task's source rows and on the target's unlabelled ones alike.

Head-only: the backbone is frozen, so that only the head's layers have an importance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.anchored_penalty import Anchor, anchored, summed
from pipeline.comparison.head_training.gradient_magnitudes import output_sensitivity
from pipeline.comparison.head_training.training_loop import FineTuning, run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import TaskRows

STRENGTH = 1e-4  # λ


class MemoryAwareSynapses(FineTuning):
    """Fine-tuning with eq. (3)."""

    strength = STRENGTH
    anchor: Anchor | None = None

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return λ Σ Ω (θ − θ*)²."""
        return None if self.anchor is None else self.strength * self.anchor.penalty(head)

    def end_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Add the task's importances, and anchor where the task ended."""
        import torch

        x = torch.cat([rows.x, rows.target])
        if len(x):
            earlier = None if self.anchor is None else self.anchor.importance
            self.anchor = anchored(head, summed(earlier, output_sensitivity(head, x)))


METHODS = {
    "mas-head": ComparedMethod(
        lambda problem: run_head(problem, MemoryAwareSynapses()),
        "MAS (head)",
        "head",
        source_samples=True,
    )
}
