"""The memory of the methods that rehearse: a few source rows of every earlier class, chosen by herding.

The budget is 20 rows per class: iCaRL's 2,000 for CIFAR-100's 100 classes, and EEIL's second setting (a fixed number
per class, so that the memory grows with the classes and nobody must know how many there will be). A class with fewer
rows is kept whole: on a small domain (dslr of Office-31: 16 images a class) that is all of the source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.comparison.head_training.growing_head import GrowingHead
from pipeline.comparison.head_training.task_rows import TaskRows
from pipeline.comparison.head_training.training_loop import FineTuning, Training, cross_entropy

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.task_rows import Batch

PER_CLASS = 20


def herding(features: Tensor, m: int) -> Tensor:
    """Return the rows (≤ m,) chosen from features (n, h), in order: iCaRL, Algorithm 4.

    Each time the row that brings the mean of the chosen ones nearest to the mean of all; ties go to the first.
    """
    import torch

    wide = features.double()
    mean = wide.mean(dim=0)
    free = torch.ones(len(wide), dtype=torch.bool)
    total = torch.zeros_like(mean)
    chosen: list[int] = []
    for k in range(1, min(m, len(wide)) + 1):
        distance = ((mean - (total + wide) / k) ** 2).sum(dim=1)
        best = int(distance.masked_fill(~free, torch.inf).argmin())
        chosen.append(best)
        free[best] = False
        total += wide[best]
    return torch.tensor(chosen, dtype=torch.int64)


def unit_hidden(head: GrowingHead, x: Tensor) -> Tensor:
    """Return the hidden rows (n, h) scaled to length 1: iCaRL's φ(x); a row with no unit on stays zero."""
    from torch.nn.functional import normalize

    return normalize(head.frozen().hidden(x), dim=1)


class Rehearsal(FineTuning):
    """Fine-tuning on the task's rows and a memory of earlier ones, cross-entropy over all classes seen.

    memory: the exemplars of each class seen, x (≤ 20, d), in the order of herding.
    """

    def __init__(self, training: Training = Training(), *, per_class: int = PER_CLASS) -> None:  # noqa: B008
        super().__init__(training)
        self.per_class = per_class
        self.memory: list[Tensor] = []

    def rehearsed(self, rows: TaskRows) -> TaskRows:
        """Return the task's rows and, after them, all exemplars."""
        import torch

        x, y = self.exemplars(rows)
        return replace(rows, x=torch.cat([rows.x, x]), y=torch.cat([rows.y, y]))

    def exemplars(self, rows: TaskRows) -> tuple[Tensor, Tensor]:
        """Return the memory as x (k, d), y (k,)."""
        import torch

        labels = [
            torch.full((len(kept),), c, dtype=torch.int64) for c, kept in enumerate(self.memory)
        ]
        return torch.cat([rows.x[:0], *self.memory]), torch.cat([rows.y[:0], *labels])

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy among all classes seen."""
        return cross_entropy(head.logits(batch.x), batch.y)

    def end_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Choose exemplars of the task's own classes under the head it ended with."""
        for c in range(rows.first, rows.seen):
            x = rows.x[rows.y == c]
            self.memory.append(x[herding(unit_hidden(head, x), self.per_class)])
