"""Riemannian walk on a head (Chaudhry et al., ECCV 2018).

Eq. (6), EWC++: F ← α F_batch + (1 − α) F, a Fisher information that moves along with training. Eq. (7): the score of a
parameter is Σ over intervals of Δt steps of ΔL / (½ F Δθ² + ε): its share of the fall of the loss per distance walked
on the manifold of the model's distributions, negative ones zero. Eq. (8): L + λ Σ (F + s)(θ − θ*)², F and s each scaled
to [0, 1]; s is averaged with the scores before. α = 0.9 and Δt = 10 as in the paper for MNIST, ε = 1e-3 as in its
author's code.

Head-only: the backbone is frozen, so that only the head's layers have an importance. Left out: the paper's optional
memory of earlier rows. F_batch is exact, not empirical, as in ewc-head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.anchored_penalty import (
    Anchor,
    Parameters,
    anchored,
    summed,
)
from pipeline.comparison.head_training.gradient_magnitudes import fisher
from pipeline.comparison.head_training.training_loop import FineTuning, run_head
from pipeline.comparison.problem import ComparedMethod

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from pipeline.comparison.head_training.growing_head import GrowingHead
    from pipeline.comparison.head_training.task_rows import TaskRows
    from pipeline.comparison.head_training.training_loop import Step

STRENGTH = 0.01  # λ
AVERAGING = 0.9  # α
INTERVAL = 10  # Δt
EPSILON = 1e-3  # ε


class RiemannianWalk(FineTuning):
    """Fine-tuning with eq. (8)."""

    strength = STRENGTH
    anchor: Anchor | None = None
    information: dict[str, Tensor] | None = None
    earlier_scores: dict[str, Tensor] | None = None

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return λ Σ (F + s)(θ − θ*)²."""
        return None if self.anchor is None else self.strength * self.anchor.penalty(head)

    def begin_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Start the walk anew."""
        self.since = head.frozen().parameters
        self.fall = {name: start * 0 for name, start in self.since.items()}
        self.scores = {name: start * 0 for name, start in self.since.items()}
        self.steps = 0

    def after_step(self, head: GrowingHead, rows: TaskRows, step: Step) -> None:
        """Add a step to the fall of the loss; at the end of an interval update F, eq. (6), and the scores, eq. (7)."""
        for name, fall in self.fall.items():
            fall.sub_(step.gradient[name] * (head.parameters[name].detach() - step.before[name]))
        self.steps += 1
        if self.steps % INTERVAL == 0:
            self.information = moved(self.information, fisher(head, step.batch.x, rows.own))
            self._score_interval(head)

    def _score_interval(self, head: GrowingHead) -> None:
        now = head.frozen().parameters
        information = self.information or {}
        for name, fall in self.fall.items():
            distance = information[name] * (now[name] - self.since[name]) ** 2 / 2
            self.scores[name] += (fall / (distance + EPSILON)).clamp(min=0)
            fall.zero_()
        self.since = now

    def end_task(self, head: GrowingHead, rows: TaskRows, generator: Generator) -> None:  # noqa: ARG002
        """Average the scores with those before, and anchor where the task ended."""
        if self.information is None:
            return
        self.earlier_scores = averaged(self.earlier_scores, self.scores)
        importance = summed(scaled(self.information), scaled(self.earlier_scores))
        self.anchor = anchored(head, importance)


def moved(earlier: Parameters | None, new: Parameters) -> dict[str, Tensor]:
    """Return α new + (1 − α) earlier, eq. (6)."""
    if earlier is None:
        return dict(new)
    kept = {name: (1 - AVERAGING) * tensor for name, tensor in earlier.items()}
    return summed(kept, {name: AVERAGING * tensor for name, tensor in new.items()})


def averaged(earlier: Parameters | None, new: Parameters) -> dict[str, Tensor]:
    """Return the mean of the scores before and the new ones; the first task has only its own."""
    if earlier is None:
        return dict(new)
    return {name: tensor / 2 for name, tensor in summed(earlier, new).items()}


def scaled(values: Parameters) -> dict[str, Tensor]:
    """Return values from 0 on, of all parameters together, divided by the largest one."""
    largest = max(float(tensor.max()) for tensor in values.values() if tensor.numel())
    return {name: tensor / (largest or 1.0) for name, tensor in values.items()}


METHODS = {
    "rwalk-head": ComparedMethod(
        lambda problem: run_head(problem, RiemannianWalk()),
        "RWalk (head)",
        "head",
        source_samples=True,
    )
}
