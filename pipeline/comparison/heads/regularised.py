"""Train heads without a memory of rows: LwF preserves old answers; EWC, SI, MAS and RWalk preserve parameters.

The last four add the penalty λ Σ importance · (θ − anchor)² and differ in the importance of a parameter. The backbone
is frozen, so only the head's parameters have an importance.

The gradient of one row with respect to a layer's weight is an outer product δ inᵀ. The mean of its squares over rows is
therefore (δ²)ᵀ(in²) / n, and that of its absolute values |δ|ᵀ|in| / n: one matrix product per layer, no loop over rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.comparison.heads.training import (
    FineTuning,
    GrowingHead,
    HeadTask,
    TrainingBatch,
    TrainingStep,
    distillation,
)

Parameters = Mapping[str, Tensor]

LAMBDA = 100.0  # λ of EWC
DAMPING = 0.1  # ξ of SI
AVERAGING = 0.9  # α of RWalk, the paper's for MNIST
INTERVAL = 10  # Δt of RWalk, the paper's for MNIST
EPSILON = 1e-3  # ε of RWalk, from the authors' code


class LearningWithoutForgetting(FineTuning):
    """Learning without forgetting (Li and Hoiem, TPAMI 2018).

    The paper's figure 3: L = λ_o L_old + L_new. L_new is the cross-entropy of the new task's rows (eq. 1), L_old the
    distillation of the old head's answers for the same rows (eqs. 2–4) at temperature T = 2. No rows of earlier tasks
    are used. The earlier classes are distilled as one softmax, because no task number separates them at test time.
    Omitted: the warm-up that trains only the new output rows.
    """

    strength = 1.0  # λ_o, the paper's value

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Record the old head's answers for the new rows."""
        self.old = head.frozen().logits(task.x)[:, : task.first]

    def loss(self, head: GrowingHead, task: HeadTask, batch: TrainingBatch) -> Tensor:
        """Return L_new + λ_o L_old."""
        new = super().loss(head, task, batch)
        if not task.first:
            return new
        return new + self.strength * distillation(head.logits(batch.x)[:, : task.first], self.old[batch.index])


@dataclass(frozen=True, eq=False)
class Anchor:
    """Values that parameters should keep, with an importance for each; output rows of later classes are free."""

    centre: Parameters
    importance: Parameters

    def penalty(self, head: GrowingHead) -> Tensor:
        """Return Σ importance · (θ − centre)²."""
        terms = [
            (self.importance[name] * (head.parameters[name][: len(centre)] - centre) ** 2).sum()
            for name, centre in self.centre.items()
        ]
        return sum(terms[1:], start=terms[0])


class AnchoredTuning(FineTuning):
    """Fine-tuning with a penalty on changes of important parameters."""

    strength = 1.0  # λ
    anchor: Anchor | None = None  # None until the first task has ended

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return λ Σ importance · (θ − anchor)²."""
        return None if self.anchor is None else self.strength * self.anchor.penalty(head)

    def add_importance(self, head: GrowingHead, importance: Parameters) -> None:
        """Add to the importance so far, and move the anchor to the head's current parameters."""
        earlier = None if self.anchor is None else self.anchor.importance
        self.anchor = Anchor(head.frozen().parameters, summed(earlier, importance))


class ElasticWeights(AnchoredTuning):
    """Elastic weight consolidation (Kirkpatrick et al., PNAS 2017).

    Eq. (3): L(θ) = L_B(θ) + Σ_i λ/2 F_i (θ_i − θ*_A,i)², where F is the diagonal of the Fisher information at the end
    of a task, here exact, not sampled. The penalties of several tasks are added and kept as one quadratic around the
    F-weighted mean of their optima.
    """

    strength = LAMBDA / 2

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Add the task's quadratic."""
        new = Anchor(head.frozen().parameters, fisher(head, task.x, task.columns))
        self.anchor = new if self.anchor is None else merged(self.anchor, new)


class SynapticIntelligence(AnchoredTuning):
    """Synaptic intelligence (Zenke, Poole and Ganguli, ICML 2017).

    Eq. (3): ω = −Σ over the task's steps of ∂L/∂θ · Δθ, a parameter's share of the decrease of the loss. Eq. (5):
    Ω = Σ over tasks of ω / (Δ² + ξ), where Δ is the parameter's change over the task. Eq. (4): L + c Σ Ω (θ̃ − θ)². The
    gradient is that of the task's loss without the penalty. A negative ω (of a parameter that increased the loss)
    counts as zero, because a negative importance would reward drift.
    """

    strength = 1.0  # c

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:  # noqa: ARG002
        """Set the path integral to zero."""
        self.start = head.frozen().parameters
        self.path = {name: start * 0 for name, start in self.start.items()}

    def after_step(self, head: GrowingHead, task: HeadTask, step: TrainingStep) -> None:  # noqa: ARG002
        """Add a step to the path integral (eq. 3)."""
        self.path = summed(self.path, step.loss_decrease(head))

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:  # noqa: ARG002
        """Add the task's importances (eq. 5)."""
        change = {n: head.parameters[n].detach() - start for n, start in self.start.items()}
        importance = {n: path.clamp(min=0) / (change[n] ** 2 + DAMPING) for n, path in self.path.items()}
        self.add_importance(head, importance)


class MemoryAwareSynapses(AnchoredTuning):
    """Memory aware synapses (Aljundi et al., ECCV 2018).

    Eqs. (2), (3): L = L_n + λ Σ Ω (θ − θ*)², where Ω is the mean over rows of |∂‖F(x)‖²/∂θ| and F are the outputs; Ω is
    summed over tasks. Ω needs no labels, so the paper also measures it on unlabelled rows of the domain where the model
    will be used. Here it is measured on the task's source and target rows.
    """

    strength = 1e-4  # λ

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:
        """Add the task's importances (eq. 2)."""
        self.add_importance(head, output_sensitivity(head, torch.cat([task.x, task.target])))


class RiemannianWalk(AnchoredTuning):
    """Riemannian walk (Chaudhry et al., ECCV 2018).

    Eq. (6), EWC++: F ← α F_batch + (1 − α) F, a running Fisher information. Eq. (7): the score s of a parameter is the
    sum over intervals of Δt steps of ΔL / (½ F Δθ² + ε), its share of the decrease of the loss per distance moved on
    the manifold of the model's distributions. Negative terms count as zero. Eq. (8): L + λ Σ (F + s)(θ − θ*)², where F
    and s are each scaled to [0, 1] and s is averaged with the earlier scores.
    F_batch is exact, not empirical, as in EWC. Omitted: the paper's optional memory of earlier rows.
    """

    strength = 0.01  # λ
    information: Parameters | None = None
    earlier_scores: Parameters | None = None

    def begin_task(self, head: GrowingHead, task: HeadTask) -> None:  # noqa: ARG002
        """Set the scores to zero."""
        self.interval_start = head.frozen().parameters
        zeros = {name: start * 0 for name, start in self.interval_start.items()}
        self.decrease, self.scores = zeros, zeros
        self.steps = 0

    def after_step(self, head: GrowingHead, task: HeadTask, step: TrainingStep) -> None:
        """Add to the decrease of the loss; at the end of an interval update F (eq. 6) and the scores (eq. 7)."""
        self.decrease = summed(self.decrease, step.loss_decrease(head))
        self.steps += 1
        if self.steps % INTERVAL:
            return
        self.information = running_mean(self.information, fisher(head, step.batch.x, task.columns), AVERAGING)
        current = head.frozen().parameters
        scores = {}
        for name, decrease in self.decrease.items():
            distance = self.information[name] * (current[name] - self.interval_start[name]) ** 2 / 2
            scores[name] = (decrease / (distance + EPSILON)).clamp(min=0)  # eq. (7)
        self.scores = summed(self.scores, scores)
        self.decrease = {name: decrease * 0 for name, decrease in self.decrease.items()}
        self.interval_start = current

    def end_task(self, head: GrowingHead, task: HeadTask) -> None:  # noqa: ARG002
        """Average the scores with the earlier ones, and anchor the current parameters."""
        if self.information is not None:
            self.earlier_scores = running_mean(self.earlier_scores, self.scores, 0.5)
            importance = summed(scaled(self.information), scaled(self.earlier_scores))
            self.anchor = Anchor(head.frozen().parameters, importance)


def merged(earlier: Anchor, new: Anchor) -> Anchor:
    """Return the anchor whose penalty is the sum of both penalties, up to a constant."""
    importance = summed(earlier.importance, new.importance)
    weighted = summed(
        {name: earlier.importance[name] * centre for name, centre in earlier.centre.items()},
        {name: new.importance[name] * centre for name, centre in new.centre.items()},
    )
    centre = {name: (weighted[name] / f).where(f > 0, new.centre[name]) for name, f in importance.items()}
    return Anchor(centre, importance)


def summed(earlier: Parameters | None, new: Parameters) -> dict[str, Tensor]:
    """Return earlier + new by parameter; output rows missing in ``earlier`` count as zero."""
    total = {name: tensor.clone() for name, tensor in new.items()}
    for name, tensor in (earlier or {}).items():
        total[name][: len(tensor)] += tensor
    return total


def running_mean(earlier: Parameters | None, new: Parameters, share: float) -> dict[str, Tensor]:
    """Return share · new + (1 − share) · earlier by parameter, or ``new`` if ``earlier`` is None."""
    if earlier is None:
        return dict(new)
    kept = {name: (1 - share) * tensor for name, tensor in earlier.items()}
    return summed(kept, {name: share * tensor for name, tensor in new.items()})


def scaled(values: Parameters) -> dict[str, Tensor]:
    """Return nonnegative values divided by the largest value of any parameter."""
    largest = max(float(tensor.max()) for tensor in values.values() if tensor.numel())
    return {name: tensor / (largest or 1.0) for name, tensor in values.items()}


def fisher(head: GrowingHead, x: Tensor, columns: slice) -> dict[str, Tensor]:
    """Return the diagonal of the Fisher information on rows (n, d), by parameter, for p(y|x) among some columns.

    It is E_x E_{y ~ p(·|x)} (∂ log p(y|x) / ∂θ)² with an exact, not sampled, expectation over y. At the output the
    gradient is 1[y = c] − p_c, whose mean square is p_c(1 − p_c). At an active hidden unit j it is W_yj − Σ_c p_c W_cj,
    whose mean square is the variance of W_yj under p.
    """
    frozen = head.frozen()
    hidden = frozen.hidden(x)
    logits = frozen.output(hidden)
    p = logits[:, columns].softmax(dim=1)
    weight = frozen.parameters["output_weight"][columns]
    variance = (p @ weight**2 - (p @ weight) ** 2).clamp(min=0)  # rounding may leave −1e-9
    at_output = torch.zeros_like(logits)
    at_output[:, columns] = p * (1 - p)
    return _layers(at_output, variance * (hidden > 0), x**2, hidden**2)


def output_sensitivity(head: GrowingHead, x: Tensor) -> dict[str, Tensor]:
    """Return the mean over rows (n, d) of |∂‖F(x)‖² / ∂θ| by parameter, where F are the logits."""
    frozen = head.frozen()
    hidden = frozen.hidden(x)
    at_output = 2 * frozen.output(hidden)
    at_hidden = (at_output @ frozen.parameters["output_weight"]) * (hidden > 0)
    return _layers(at_output.abs(), at_hidden.abs(), x.abs(), hidden)


def _layers(output: Tensor, hidden: Tensor, x: Tensor, z: Tensor) -> dict[str, Tensor]:
    """Return the mean outer products of magnitudes: output (n, C) with z (n, h), hidden (n, h) with x (n, d)."""
    return {
        "hidden_weight": hidden.T @ x / len(x),
        "hidden_bias": hidden.mean(dim=0),
        "output_weight": output.T @ z / len(x),
        "output_bias": output.mean(dim=0),
    }
