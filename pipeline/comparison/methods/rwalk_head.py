"""Riemannian walk on a head (Chaudhry et al., ECCV 2018).

Eq. (6), EWC++: F ← α F_batch + (1 − α) F, a running Fisher information. Eq. (7): the score of a parameter is
Σ over intervals of Δt steps of ΔL / (½ F Δθ² + ε), its share of the decrease of the loss per distance moved on the
manifold of the model's distributions; negative terms count as zero. Eq. (8): L + λ Σ (F + s)(θ − θ*)², F and s each
scaled to [0, 1]; s is averaged with the earlier scores. α = 0.9 and Δt = 10 as in the paper for MNIST, ε = 1e-3 as in
the authors' code.

Head-only: the backbone is frozen, so only the head's layers have an importance. Left out: the paper's optional memory
of earlier rows. F_batch is exact, not empirical, as in ewc-head.
"""

from __future__ import annotations

from torch import Tensor

from pipeline.comparison.head_training.anchored_penalty import Anchor, AnchoredTuning, Parameters, fisher, summed
from pipeline.comparison.head_training.growing_head import GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import Step, head_method

AVERAGING = 0.9  # α
INTERVAL = 10  # Δt
EPSILON = 1e-3  # ε


class RiemannianWalk(AnchoredTuning):
    """Fine-tuning with eq. (8)."""

    strength = 0.01  # λ
    information: Parameters | None = None
    earlier_scores: Parameters | None = None

    def begin_task(self, head: GrowingHead, rows: TaskRows) -> None:  # noqa: ARG002
        """Set the scores to zero."""
        self.interval_start = head.frozen().parameters
        zeros = {name: start * 0 for name, start in self.interval_start.items()}
        self.decrease, self.scores = zeros, zeros
        self.steps = 0

    def after_step(self, head: GrowingHead, rows: TaskRows, step: Step) -> None:
        """Add to the decrease of the loss; at the end of an interval update F, eq. (6), and the scores, eq. (7)."""
        self.decrease = summed(self.decrease, step.loss_decrease(head))
        self.steps += 1
        if self.steps % INTERVAL == 0:
            self.information = running_mean(self.information, fisher(head, step.batch.x, rows.own), AVERAGING)
            self._score_interval(head, self.information)

    def _score_interval(self, head: GrowingHead, information: Parameters) -> None:
        now = head.frozen().parameters
        scores = {}
        for name, decrease in self.decrease.items():
            distance = information[name] * (now[name] - self.interval_start[name]) ** 2 / 2
            scores[name] = (decrease / (distance + EPSILON)).clamp(min=0)  # eq. (7)
        self.scores = summed(self.scores, scores)
        self.decrease = {name: decrease * 0 for name, decrease in self.decrease.items()}
        self.interval_start = now

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:  # noqa: ARG002
        """Average the scores with the earlier ones, and anchor the parameters where they are."""
        if self.information is not None:
            self.earlier_scores = running_mean(self.earlier_scores, self.scores, 0.5)
            importance = summed(scaled(self.information), scaled(self.earlier_scores))
            self.anchor = Anchor(head.frozen().parameters, importance)


def running_mean(earlier: Parameters | None, new: Parameters, share: float) -> dict[str, Tensor]:
    """Return share · new + (1 − share) · earlier by parameter, or ``new`` if nothing is earlier."""
    if earlier is None:
        return dict(new)
    kept = {name: (1 - share) * tensor for name, tensor in earlier.items()}
    return summed(kept, {name: share * tensor for name, tensor in new.items()})


def scaled(values: Parameters) -> dict[str, Tensor]:
    """Return nonnegative values divided by the largest of all parameters."""
    largest = max(float(tensor.max()) for tensor in values.values() if tensor.numel())
    return {name: tensor / (largest or 1.0) for name, tensor in values.items()}


METHODS = {"rwalk-head": head_method("RWalk", RiemannianWalk)}
