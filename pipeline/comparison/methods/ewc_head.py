"""Elastic weight consolidation on a head (Kirkpatrick et al., PNAS 2017).

Eq. (3): L(θ) = L_B(θ) + Σ_i λ/2 F_i (θ_i − θ*_A,i)², F the diagonal of the Fisher information at the end of a task. Of
several earlier tasks the penalties add; their sum is one quadratic around the F-weighted mean of their optima, and
that one is kept.

Head-only: the backbone is frozen, so that only the head's layers are consolidated. F is exact, not sampled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.anchored_penalty import Anchor, anchored, summed
from pipeline.comparison.head_training.gradient_magnitudes import fisher
from pipeline.comparison.head_training.training_loop import FineTuning, run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import TaskRows

STRENGTH = 100.0  # λ


class ElasticWeights(FineTuning):
    """Fine-tuning with eq. (3)."""

    strength = STRENGTH
    anchor: Anchor | None = None

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return λ/2 Σ F (θ − θ*)²."""
        return None if self.anchor is None else self.strength / 2 * self.anchor.penalty(head)

    def end_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Add the task's own quadratic."""
        if len(rows.x):
            new = anchored(head, fisher(head, rows.x, rows.own))
            self.anchor = new if self.anchor is None else merged(self.anchor, new)


def merged(earlier: Anchor, new: Anchor) -> Anchor:
    """Return the anchor whose penalty is the sum of both, up to a constant."""
    importance = summed(earlier.importance, new.importance)
    weighed = summed(
        {name: earlier.importance[name] * at for name, at in earlier.at.items()},
        {name: new.importance[name] * at for name, at in new.at.items()},
    )
    at = {name: (weighed[name] / f).where(f > 0, new.at[name]) for name, f in importance.items()}
    return Anchor(at, importance)


METHODS = {
    "ewc-head": ComparedMethod(
        lambda problem: run_head(problem, ElasticWeights()),
        "EWC (head)",
        "head",
        source_samples=True,
    )
}
