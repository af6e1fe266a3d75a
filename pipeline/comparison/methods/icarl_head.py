"""iCaRL on a head (Rebuffi et al., CVPR 2017).

Algorithm 3: each output is a sigmoid of its own; the new classes' are trained on the labels, the old classes' on what
the old head answered for the same rows (new rows and exemplars). Algorithm 4: exemplars by herding in feature space.
Algorithm 1: a row goes to the class whose exemplars' mean is nearest; all features and means have length 1. The
features are the head's hidden layer. Budget: 20 exemplars per class (exemplars.py).

Head-only: the backbone is frozen, so that only the hidden layer's features are learned. Left out: Algorithm 5
(a fixed total budget that shrinks the classes' share).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.exemplars import Rehearsal, unit_hidden
from pipeline.comparison.head_training.training_loop import run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import Batch, TaskRows


class ExemplarClassifier(Rehearsal):
    """Sigmoid outputs with distillation for the features; the nearest mean of exemplars to classify."""

    def begin_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Record the old head's answers q for all rows, Algorithm 3."""
        self.old = head.frozen().logits(rows.x)[:, : rows.first].sigmoid()

    def loss(self, head: GrowingHead, rows: TaskRows, batch: Batch) -> Tensor:
        """Return Algorithm 3's loss: Σ over classes of the binary cross-entropy, the mean over rows."""
        from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

        wanted = one_hot(batch.y, rows.seen).float()
        wanted[:, : rows.first] = self.old[batch.rows]
        every = binary_cross_entropy_with_logits(head.logits(batch.x), wanted, reduction="none")
        return every.sum(dim=1).mean()

    def predict(self, head: GrowingHead, x: Tensor) -> Tensor:
        """Return the class (n,) whose mean of exemplars is nearest, Algorithm 1."""
        import torch
        from torch.nn.functional import normalize

        means = torch.stack([unit_hidden(head, kept).mean(dim=0) for kept in self.memory])
        # both sides have length 1: the nearest is the one with the largest product
        products = unit_hidden(head, x) @ normalize(means, dim=1).T
        return products.nan_to_num(nan=-2.0).argmax(dim=1)  # a class without rows has no mean


METHODS = {
    "icarl-head": ComparedMethod(
        lambda problem: run_head(problem, ExemplarClassifier()),
        "iCaRL (head)",
        "head",
        source_samples=True,
    )
}
