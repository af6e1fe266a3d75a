"""Learning without forgetting on a head (Li and Hoiem, TPAMI 2018).

The paper's figure 3: L = λ_o L_old + L_new. L_new is the cross-entropy of the new task's rows, eq. (1); L_old the
distillation of the old head's answers for those same rows, eqs. (2)–(4), at temperature T = 2. There are no rows of
earlier tasks. The earlier classes are distilled as one softmax, because no task number tells them apart at test.

Head-only: the backbone is frozen. Left out: the warm-up of the new output rows alone.
"""

from __future__ import annotations

from torch import Tensor

from pipeline.comparison.head_training.growing_head import Batch, GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import FineTuning, distillation, head_method


class LearningWithoutForgetting(FineTuning):
    """Fine-tuning with distillation from the old head."""

    strength = 1.0  # λ_o, the paper's own

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Record the old head's answers for the new rows."""
        self.old = head.frozen().logits(rows.x)[:, : rows.first]

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return L_new + λ_o L_old."""
        new = super().loss(head, rows, batch)
        if not rows.first:
            return new
        old = distillation(head.logits(batch.x)[:, : rows.first], self.old[batch.index])
        return new + self.strength * old


METHODS = {"lwf-head": head_method("LwF", LearningWithoutForgetting)}
