"""IL2M on a head (Belouadah and Popescu, ICCV 2019).

Fine-tuning with a memory of exemplars and a second memory of statistics. Eq. (1): where the predicted class is a new
one, the score of every earlier class c is multiplied by μ_P(c)/μ_N(c) · μ(M_N)/μ(M_P). μ_P(c) is the mean score of c
over its own rows in the state P that first learned it, μ_N(c) the same over its exemplars now, μ(M) the mean top score
of a state's new rows. Scores are softmax probabilities. Budget: 20 exemplars per class, see exemplars.py.

Head-only: the backbone is frozen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.comparison.head_training.exemplars import Rehearsal
from pipeline.comparison.head_training.growing_head import GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import head_method

LEAST = 1e-6  # least mean score: it bounds the factor of a forgotten class


class DualMemory(Rehearsal):
    """Rehearsal with rectified scores."""

    initial: Tensor  # (C,) μ_P of each class seen
    confidence: Tensor  # (C,) μ(M_P) of the state that first learned it
    now: Tensor  # (C,) μ_N
    first: int  # number of classes before the current task

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:  # noqa: ARG002
        """Create the memory of statistics before the first task."""
        if not rows.first:
            self.initial = rows.x.new_zeros(0)
            self.confidence = rows.x.new_zeros(0)

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Record μ_P of the task's classes and μ(M_P), and μ_N of the earlier ones."""
        scores = head.frozen().logits(rows.x).softmax(dim=1)
        self.now = class_means(scores, rows.y)
        new = rows.y >= rows.first
        top = scores[new].max(dim=1).values.mean().nan_to_num(nan=1.0)
        self.initial = torch.cat([self.initial, self.now[rows.own]])
        self.confidence = torch.cat([self.confidence, top.expand(rows.classes_seen - rows.first)])
        self.first = rows.first
        super().end_task(head, rows)

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) of the largest rectified score."""
        scores = head.logits(x).softmax(dim=1)
        ratio = self.initial / self.now * self.confidence[-1] / self.confidence
        return rectified(scores, ratio, self.first).argmax(dim=1)


def class_means(scores: Tensor, y: Tensor) -> Tensor:
    """Return the mean (C,) of scores (n, C) in the column of each row's own class; `LEAST` for a class without rows."""
    own = scores.gather(1, y[:, None])[:, 0]
    sums = scores.new_zeros(scores.shape[1]).index_add(0, y, own)
    counts = y.bincount(minlength=scores.shape[1])
    return (sums / counts.clamp(min=1)).clamp(min=LEAST)


def rectified(scores: Tensor, ratio: Tensor, first: int) -> Tensor:
    """Return scores (n, C), eq. (1): where a new class is on top, classes before ``first`` are multiplied by ratio."""
    new_on_top = scores.argmax(dim=1) >= first
    factor = ratio.clone()
    factor[first:] = 1.0
    return (scores * factor).where(new_on_top[:, None], scores)


METHODS = {"il2m-head": head_method("IL2M", DualMemory)}
