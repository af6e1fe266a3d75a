"""End-to-end incremental learning on a head (Castro et al., ECCV 2018).

Eqs. (1)–(3), the cross-distilled loss: cross-entropy over all classes seen, plus for every earlier task the
distillation of its own outputs at T = 2, on new rows and exemplars. Then balanced fine-tuning at a tenth of the rate:
the same number of rows of every class, new ones also chosen by herding, and a distillation of the new task's outputs
as they were before it, so that the small balanced set does not undo what the large one taught. Budget: 20 exemplars
per class, see exemplars.py.

Head-only: the backbone is frozen. Left out: image augmentation and noise on the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from pipeline.comparison.head_training.exemplars import Rehearsal
from pipeline.comparison.head_training.growing_head import Batch, GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import distillation, head_method, train

BALANCED_STEPS = 0.4  # of the task's steps: FACIL fine-tunes for 40 epochs after 90
BALANCED_RATE = 0.1  # of the task's rate


class EndToEnd(Rehearsal):
    """The cross-distilled loss, then balanced fine-tuning."""

    tasks: Sequence[slice] = ()  # columns of each task seen
    distilled: Sequence[slice]  # columns of the tasks that are distilled now
    old: Tensor  # (n, C) logits, before training, of the rows trained on

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Record the old head's answers for all rows."""
        self._distil(head, rows, self.tasks)
        self.tasks = [*self.tasks, rows.own]

    def _distil(self, head: GrowingHead, rows: TaskRows, tasks: Sequence[slice]) -> None:
        self.distilled = tasks
        self.old = head.frozen().logits(rows.x)

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return eq. (1): cross-entropy and, task by task, distillation."""
        logits, old = head.logits(batch.x), self.old[batch.index]
        total = super().loss(head, rows, batch)
        for columns in self.distilled:
            total = total + distillation(logits[:, columns], old[:, columns])
        return total

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Choose exemplars, fine-tune on exemplars alone, choose again by the new features."""
        super().end_task(head, rows)
        if not rows.first:
            return
        x, y = self.exemplars(rows)
        balanced = replace(rows, x=x, y=y)
        self._distil(head, balanced, self.tasks)
        training = replace(
            self.training,
            steps=round(BALANCED_STEPS * self.training.steps_for(len(rows.x))),
            passes=0,
            rate=BALANCED_RATE * self.training.rate,
        )
        train(self, head, balanced, training)
        del self.memory[rows.first :]
        super().end_task(head, rows)


METHODS = {"eeil-head": head_method("EEIL", EndToEnd)}
