"""Train heads that rehearse: iCaRL, EEIL and IL2M keep a few source rows of every earlier class, chosen by herding.

The budget is 20 rows per class, which equals iCaRL's 2,000 rows for CIFAR-100's 100 classes. Like EEIL's second
setting, it is fixed per class, so that the number of classes need not be known in advance. A class with fewer rows is
kept whole; on a small domain (dslr of Office-31 has 16 images per class) this is the whole source.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, normalize, one_hot

from pipeline.comparison.heads.training import FineTuning, GrowingHead, HeadTask, TrainingBatch, distillation, train

PER_CLASS = 20
BALANCED_STEPS = 0.4  # EEIL's fine-tuning steps as a share of a task's steps; FACIL fine-tunes for 40 epochs after 90
BALANCED_RATE = 0.1  # EEIL's fine-tuning rate as a share of a task's rate
LEAST = 1e-6  # least mean score in IL2M, which bounds the factor of a forgotten class


class Rehearsal(FineTuning):
    """Fine-tuning on the task's rows and exemplars of earlier classes, with cross-entropy over all classes seen."""

    def __init__(self) -> None:
        self.memory: list[Tensor] = []  # exemplars (at most `PER_CLASS`, d) of each class

    def rehearsed(self, task: HeadTask) -> HeadTask:
        """Return the task with all exemplars appended to its rows."""
        x, y = self.exemplars(task)
        return replace(task, x=torch.cat([task.x, x]), y=torch.cat([task.y, y]))

    def exemplars(self, task: HeadTask) -> tuple[Tensor, Tensor]:
        """Return all exemplars as x (k, d) and y (k,), with the dtypes of the task's rows."""
        labels = [torch.full((len(x),), c, dtype=torch.int64) for c, x in enumerate(self.memory)]
        return torch.cat([task.x[:0], *self.memory]), torch.cat([task.y[:0], *labels])

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:  # noqa: ARG002
        """Return the cross-entropy among all classes seen."""
        return cross_entropy(head.logits(batch.x), batch.y)

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Choose exemplars of the task's own classes by the trained head's features."""
        for c in range(task.first, task.classes_seen):
            x = task.x[task.y == c]
            self.memory.append(x[herding(unit_hidden(head, x), PER_CLASS)])


class ExemplarClassifier(Rehearsal):
    """iCaRL (Rebuffi et al., CVPR 2017).

    Algorithm 3: each output is a sigmoid. Outputs of new classes are trained on the labels, outputs of old classes on
    the old head's answers for the same rows (new rows and exemplars). Algorithm 4: exemplars are chosen by herding in
    feature space. Algorithm 1: a row is assigned to the class with the nearest mean of exemplars; all features and
    means have length 1. The features are the head's hidden layer. Omitted: Algorithm 5, which shares a fixed total
    budget between the classes seen.
    """

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record the old head's answers q for all rows (Algorithm 3)."""
        self.old = head.frozen().logits(task.x)[:, : task.first].sigmoid()

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:
        """Return Algorithm 3's loss: binary cross-entropy, summed over classes and averaged over rows."""
        answers = one_hot(batch.y, task.classes_seen).float()
        answers[:, : task.first] = self.old[batch.index]
        losses = binary_cross_entropy_with_logits(head.logits(batch.x), answers, reduction="none")
        return losses.sum(dim=1).mean()

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) with the nearest mean of exemplars (Algorithm 1)."""
        means = torch.stack([unit_hidden(head, x).mean(dim=0) for x in self.memory])
        # rows and means have length 1, so the nearest mean has the largest product
        return (unit_hidden(head, x) @ normalize(means, dim=1).T).argmax(dim=1)


class EndToEnd(Rehearsal):
    """End-to-end incremental learning, EEIL (Castro et al., ECCV 2018).

    Eqs. (1)–(3), the cross-distilled loss: cross-entropy over all classes seen, plus the distillation of each earlier
    task's outputs at T = 2, on new rows and exemplars. Balanced fine-tuning follows at a tenth of the rate, on the same
    number of rows of every class; rows of new classes are also chosen by herding. It distils the new task's previous
    outputs too, so that the small balanced set does not undo what was learned from the large one.
    Omitted: image augmentation and noise on the gradients.
    """

    tasks: Sequence[slice] = ()  # columns of each task seen
    distilled: Sequence[slice]  # columns of each task that is being distilled
    old: Tensor  # (n, C) logits of the training rows before training

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record the old head's answers for all rows."""
        self.distilled, self.old = self.tasks, head.frozen().logits(task.x)
        self.tasks = [*self.tasks, task.columns]

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:
        """Return the cross-entropy plus the distillation of each task (eq. 1)."""
        logits, old = head.logits(batch.x), self.old[batch.index]
        total = super().loss(head, task, batch)
        for columns in self.distilled:
            total = total + distillation(logits[:, columns], old[:, columns])
        return total

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Choose exemplars, fine-tune on exemplars alone, and choose those of the new classes again."""
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

    Fine-tuning with a memory of exemplars and a second memory of statistics. Eq. (1): if the predicted class is new,
    the score of every earlier class c is multiplied by μ_P(c)/μ_N(c) · μ(M_N)/μ(M_P). μ_P(c) is the mean score of c
    over its own rows in the state P that first learned it, μ_N(c) the mean over its exemplars in the current state N,
    and μ(M) the mean top score of a state's new rows. Scores are softmax probabilities.
    """

    initial = torch.zeros(0)  # (C,) μ_P of each class seen
    current: Tensor  # (C,) μ_N of each class seen
    confidence = torch.zeros(0)  # (C,) μ(M_P) of the state that first learned each class
    first: int  # number of classes before the current task

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record μ_P of the task's classes and μ(M_P), and μ_N of the earlier ones."""
        scores = head.frozen().logits(task.x).softmax(dim=1)
        self.current = mean_scores(scores, task.y)
        top = scores[task.y >= task.first].max(dim=1).values.mean()
        self.initial = torch.cat([self.initial, self.current[task.columns]])
        self.confidence = torch.cat([self.confidence, top.expand(task.classes_seen - task.first)])
        self.first = task.first
        super().end_task(head, task)

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) with the largest rectified score."""
        scores = head.logits(x).softmax(dim=1)
        factor = self.initial / self.current * self.confidence[-1] / self.confidence  # eq. (1); 1 for new classes
        new_on_top = scores.argmax(dim=1) >= self.first
        return (scores * factor).where(new_on_top[:, None], scores).argmax(dim=1)


def herding(features: Tensor, m: int) -> Tensor:
    """Choose at most m rows of features (n, h) by iCaRL's Algorithm 4 and return their positions in order of choice.

    Each choice brings the mean of the chosen rows closest to the mean of all; ties go to the first row.
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
    """Return the hidden rows (n, h) scaled to length 1 (iCaRL's φ(x)); zero rows stay zero."""
    return normalize(head.frozen().hidden(x), dim=1)


def mean_scores(scores: Tensor, y: Tensor) -> Tensor:
    """Return each class's mean score over its own rows, (C,), given scores (n, C); the least mean is `LEAST`."""
    label_scores = scores.gather(1, y[:, None])[:, 0]
    sums = scores.new_zeros(scores.shape[1]).index_add(0, y, label_scores)
    counts = y.bincount(minlength=scores.shape[1])
    return (sums / counts).clamp(min=LEAST)
