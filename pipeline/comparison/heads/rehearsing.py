"""Heads that rehearse: iCaRL, EEIL and IL2M keep a few source rows of every earlier class, chosen by herding.

The budget is 20 rows per class: iCaRL's 2,000 for CIFAR-100's 100 classes, and EEIL's second setting, a fixed number
per class, for which nobody must know how many classes there will be. A class with fewer rows is kept whole; on a small
domain (dslr of Office-31 has 16 images per class) that is all of the source.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, normalize, one_hot

from pipeline.comparison.heads.training import FineTuning, GrowingHead, HeadTask, TrainingBatch, distillation, train

PER_CLASS = 20
BALANCED_STEPS = 0.4  # of EEIL's steps for a task: FACIL fine-tunes for 40 epochs after 90
BALANCED_RATE = 0.1  # of EEIL's rate for a task
LEAST = 1e-6  # least mean score of IL2M: it bounds the factor of a forgotten class


class Rehearsal(FineTuning):
    """Fine-tuning on the task's rows and a memory of earlier ones, cross-entropy over all classes seen."""

    def __init__(self) -> None:
        self.memory: list[Tensor] = []  # for each class its exemplars (at most `PER_CLASS`, d)

    def rehearsed(self, task: HeadTask) -> HeadTask:
        """Return the task with all exemplars after its own rows."""
        x, y = self.exemplars(task)
        return replace(task, x=torch.cat([task.x, x]), y=torch.cat([task.y, y]))

    def exemplars(self, task: HeadTask) -> tuple[Tensor, Tensor]:
        """Return the memory as x (k, d) and y (k,), of the types of the task's rows."""
        labels = [torch.full((len(x),), c, dtype=torch.int64) for c, x in enumerate(self.memory)]
        return torch.cat([task.x[:0], *self.memory]), torch.cat([task.y[:0], *labels])

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy among all classes seen."""
        return cross_entropy(head.logits(batch.x), batch.y)

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Choose exemplars of the task's own classes, by the head's features at its end."""
        for c in range(task.first, task.classes_seen):
            x = task.x[task.y == c]
            self.memory.append(x[herding(unit_hidden(head, x), PER_CLASS)])


class ExemplarClassifier(Rehearsal):
    """iCaRL (Rebuffi et al., CVPR 2017).

    Algorithm 3: each output is a sigmoid; those of the new classes are trained on the labels, those of the old classes
    on the old head's answers for the same rows (new rows and exemplars). Algorithm 4: exemplars by herding in feature
    space. Algorithm 1: a row goes to the class whose mean of exemplars is nearest; all features and means have length
    1. The features are the head's hidden layer. Left out: Algorithm 5, a fixed total budget that is shared out anew as
    classes arrive.
    """

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record the old head's answers q for all rows, Algorithm 3."""
        self.old = head.frozen().logits(task.x)[:, : task.first].sigmoid()

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:
        """Return Algorithm 3's loss: binary cross-entropy, summed over classes, the mean over rows."""
        answers = one_hot(batch.y, task.classes_seen).float()
        answers[:, : task.first] = self.old[batch.index]
        losses = binary_cross_entropy_with_logits(head.logits(batch.x), answers, reduction="none")
        return losses.sum(dim=1).mean()

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) whose mean of exemplars is nearest, Algorithm 1."""
        means = torch.stack([unit_hidden(head, x).mean(dim=0) for x in self.memory])
        # both sides have length 1: the nearest mean has the largest product
        return (unit_hidden(head, x) @ normalize(means, dim=1).T).argmax(dim=1)


class EndToEnd(Rehearsal):
    """End-to-end incremental learning, EEIL (Castro et al., ECCV 2018).

    Eqs. (1)–(3), the cross-distilled loss: cross-entropy over all classes seen, plus for every earlier task the
    distillation of its own outputs at T = 2, on new rows and exemplars. Then balanced fine-tuning at a tenth of the
    rate: the same number of rows of every class, new ones also chosen by herding, and a distillation of the new task's
    outputs as they were before it, so that the small balanced set does not undo what the large one taught.
    Left out: image augmentation and noise on the gradients.
    """

    tasks: Sequence[slice] = ()  # columns of each task seen
    distilled: Sequence[slice]  # columns of the tasks that are distilled now
    old: Tensor  # (n, C) logits, before training, of the rows trained on

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record the old head's answers for all rows."""
        self.distilled, self.old = self.tasks, head.frozen().logits(task.x)
        self.tasks = [*self.tasks, task.own]

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:
        """Return eq. (1): cross-entropy and, task by task, distillation."""
        logits, old = head.logits(batch.x), self.old[batch.index]
        total = super().loss(head, task, batch)
        for columns in self.distilled:
            total = total + distillation(logits[:, columns], old[:, columns])
        return total

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Choose exemplars, fine-tune on exemplars alone, choose again by the new features."""
        super().end_task(head, task)
        if not task.first:
            return
        x, y = self.exemplars(task)
        self.distilled, self.old = self.tasks, head.frozen().logits(x)
        steps = round(BALANCED_STEPS * self.training.steps_for(len(task.x)))
        rate = BALANCED_RATE * self.training.rate
        train(self, head, replace(task, x=x, y=y), replace(self.training, steps=steps, passes=0, rate=rate))
        del self.memory[task.first :]
        super().end_task(head, task)


class DualMemory(Rehearsal):
    """IL2M (Belouadah and Popescu, ICCV 2019).

    Fine-tuning with a memory of exemplars and a second memory of statistics. Eq. (1): where the predicted class is a
    new one, the score of every earlier class c is multiplied by μ_P(c)/μ_N(c) · μ(M_N)/μ(M_P). μ_P(c) is the mean score
    of c over its own rows in the state P that first learned it, μ_N(c) the same over its exemplars now, μ(M) the mean
    top score of a state's new rows. Scores are softmax probabilities.
    """

    initial = torch.zeros(0)  # (C,) μ_P of each class seen
    confidence = torch.zeros(0)  # (C,) μ(M_P) of the state that first learned it
    now: Tensor  # (C,) μ_N
    first: int  # number of classes before the current task

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record μ_P of the task's classes and μ(M_P), and μ_N of the earlier ones."""
        scores = head.frozen().logits(task.x).softmax(dim=1)
        self.now = mean_scores(scores, task.y)
        top = scores[task.y >= task.first].max(dim=1).values.mean()
        self.initial = torch.cat([self.initial, self.now[task.own]])
        self.confidence = torch.cat([self.confidence, top.expand(task.classes_seen - task.first)])
        self.first = task.first
        super().end_task(head, task)

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) of the largest rectified score."""
        scores = head.logits(x).softmax(dim=1)
        factor = self.initial / self.now * self.confidence[-1] / self.confidence  # of eq. (1); 1 for new classes
        new_on_top = scores.argmax(dim=1) >= self.first
        return (scores * factor).where(new_on_top[:, None], scores).argmax(dim=1)


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


def mean_scores(scores: Tensor, y: Tensor) -> Tensor:
    """Return the mean (C,) of scores (n, C) in the column of each row's own class, at least `LEAST`."""
    own = scores.gather(1, y[:, None])[:, 0]
    sums = scores.new_zeros(scores.shape[1]).index_add(0, y, own)
    counts = y.bincount(minlength=scores.shape[1])
    return (sums / counts).clamp(min=LEAST)
