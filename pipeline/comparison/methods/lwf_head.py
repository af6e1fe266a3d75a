"""Learning without forgetting on a head (Li and Hoiem, TPAMI 2018).

The paper's figure 3: L = λ_o L_old + L_new. L_new is the cross-entropy of the new task's rows, eq. (1); L_old the
distillation of the old head's answers for those same rows, eqs. (2)–(4), at temperature T = 2. There are no rows of
earlier tasks. The earlier classes are distilled as one softmax, because no task id tells them apart at test.

Head-only: the backbone is frozen. Left out: the warm-up of the new output rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.distillation import distillation
from pipeline.comparison.head_training.training_loop import FineTuning, run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import Batch, TaskRows

STRENGTH = 1.0  # λ_o, the paper's own


class LearningWithoutForgetting(FineTuning):
    """Fine-tuning with the distillation of the old head."""

    strength = STRENGTH

    def begin_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Record the old head's answers for the new rows."""
        self.old = head.frozen().logits(rows.x)[:, : rows.first]

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return L_new + λ_o L_old."""
        new = super().loss(head, rows, batch)
        if not rows.first:
            return new
        old = distillation(head.logits(batch.x)[:, : rows.first], self.old[batch.rows])
        return new + self.strength * old


METHODS = {
    "lwf-head": ComparedMethod(
        lambda problem: run_head(problem, LearningWithoutForgetting()),
        "LwF (head)",
        "head",
        source_samples=True,
    )
}
