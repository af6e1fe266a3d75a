"""The memory of the methods that rehearse: a few source rows of every earlier class, chosen by herding.

The budget is 20 rows per class: iCaRL's 2,000 for CIFAR-100's 100 classes, and EEIL's second setting, a fixed number
per class, for which nobody must know how many classes there will be. A class with fewer rows is kept whole; on a small
domain (dslr of Office-31 has 16 images per class) that is all of the source.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from pipeline.comparison.head_training.growing_head import Batch, GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import FineTuning, Training

PER_CLASS = 20


def herding(features: Tensor, m: int) -> Tensor:
    """Return the positions (at most m) of rows chosen from features (n, h), in order: iCaRL, Algorithm 4.

    Each choice brings the mean of the chosen rows nearest to the mean of all; ties go to the first row.
    """
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
    """Return the hidden rows (n, h) scaled to length 1, iCaRL's φ(x); a zero row stays zero."""
    return normalize(head.frozen().hidden(x), dim=1)


class Rehearsal(FineTuning):
    """Fine-tuning on the task's rows and a memory of earlier ones, cross-entropy over all classes seen."""

    def __init__(self, training: Training | None = None, *, per_class: int = PER_CLASS) -> None:
        super().__init__(training)
        self.per_class = per_class
        self.memory: list[Tensor] = []  # for each class its exemplars (at most per_class, d)

    def rehearsed(self, rows: TaskRows) -> TaskRows:
        """Return the task's rows followed by all exemplars."""
        x, y = self.exemplars(rows)
        return replace(rows, x=torch.cat([rows.x, x]), y=torch.cat([rows.y, y]))

    def exemplars(self, rows: TaskRows) -> tuple[Tensor, Tensor]:
        """Return the memory as x (k, d) and y (k,), of the types of the task's rows."""
        labels = [torch.full((len(x),), c, dtype=torch.int64) for c, x in enumerate(self.memory)]
        return torch.cat([rows.x[:0], *self.memory]), torch.cat([rows.y[:0], *labels])

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy among all classes seen."""
        return cross_entropy(head.logits(batch.x), batch.y)

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Choose exemplars of the task's own classes, by the head's features at its end."""
        for c in range(rows.first, rows.classes_seen):
            x = rows.x[rows.y == c]
            self.memory.append(x[herding(unit_hidden(head, x), self.per_class)])
