"""iCaRL on a head (Rebuffi et al., CVPR 2017).

Algorithm 3: each output is a sigmoid; those of the new classes are trained on the labels, those of the old classes on
the old head's answers for the same rows (new rows and exemplars). Algorithm 4: exemplars by herding in feature space.
Algorithm 1: a row goes to the class whose mean of exemplars is nearest; all features and means have length 1. The
features are the head's hidden layer. Budget: 20 exemplars per class, see exemplars.py.

Head-only: the backbone is frozen, so only the hidden layer's features are learned. Left out: Algorithm 5, a fixed
total budget that is shared out anew as classes arrive.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot

from pipeline.comparison.head_training.exemplars import Rehearsal, unit_hidden
from pipeline.comparison.head_training.growing_head import Batch, GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import head_method


class ExemplarClassifier(Rehearsal):
    """Sigmoid outputs with distillation to learn features; the nearest mean of exemplars to classify."""

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Record the old head's answers q for all rows, Algorithm 3."""
        self.old = head.frozen().logits(rows.x)[:, : rows.first].sigmoid()

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return Algorithm 3's loss: binary cross-entropy, summed over classes, the mean over rows."""
        answers = one_hot(batch.y, rows.classes_seen).float()
        answers[:, : rows.first] = self.old[batch.index]
        losses = binary_cross_entropy_with_logits(head.logits(batch.x), answers, reduction="none")
        return losses.sum(dim=1).mean()

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) whose mean of exemplars is nearest, Algorithm 1."""
        means = torch.stack([unit_hidden(head, x).mean(dim=0) for x in self.memory])
        # both sides have length 1: the nearest mean has the largest product
        products = unit_hidden(head, x) @ normalize(means, dim=1).T
        return products.nan_to_num(nan=-2.0).argmax(dim=1)  # a class without rows has no mean


METHODS = {"icarl-head": head_method("iCaRL", ExemplarClassifier)}
