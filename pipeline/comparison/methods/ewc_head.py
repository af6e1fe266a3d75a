"""Elastic weight consolidation on a head (Kirkpatrick et al., PNAS 2017).

Eq. (3): L(θ) = L_B(θ) + Σ_i λ/2 F_i (θ_i − θ*_A,i)², F the diagonal of the Fisher information at the end of a task.
The penalties of several tasks add; their sum is one quadratic around the F-weighted mean of their optima, which is
what is kept.

Head-only: the backbone is frozen, so only the head's layers are consolidated. F is exact, not sampled.
"""

from __future__ import annotations

from pipeline.comparison.head_training.anchored_penalty import Anchor, AnchoredTuning, fisher, summed
from pipeline.comparison.head_training.growing_head import GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import head_method

LAMBDA = 100.0


class ElasticWeights(AnchoredTuning):
    """Fine-tuning with eq. (3)."""

    strength = LAMBDA / 2

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Add the task's own quadratic."""
        if len(rows.x):
            new = Anchor(head.frozen().parameters, fisher(head, rows.x, rows.own))
            self.anchor = new if self.anchor is None else merged(self.anchor, new)


def merged(earlier: Anchor, new: Anchor) -> Anchor:
    """Return the anchor whose penalty is the sum of both, up to a constant."""
    importance = summed(earlier.importance, new.importance)
    weighted = summed(
        {name: earlier.importance[name] * centre for name, centre in earlier.centre.items()},
        {name: new.importance[name] * centre for name, centre in new.centre.items()},
    )
    centre = {name: (weighted[name] / f).where(f > 0, new.centre[name]) for name, f in importance.items()}
    return Anchor(centre, importance)


METHODS = {"ewc-head": head_method("EWC", ElasticWeights)}
