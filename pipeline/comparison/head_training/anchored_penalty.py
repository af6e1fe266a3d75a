"""λ Σ importance · (θ − anchor)², the penalty that EWC, SI, MAS and RWalk share, and two kinds of importance.

The gradient of one row with respect to a layer's weight is an outer product δ inᵀ. So the mean over rows of its squares
is (δ²)ᵀ(in²) / n and that of its absolute values |δ|ᵀ|in| / n: one matrix product per layer, no loop over rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from pipeline.comparison.head_training.growing_head import GrowingHead
from pipeline.comparison.head_training.training_loop import FineTuning

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Anchor:
    """Where parameters should stay and how much each number matters; output rows of later classes stay free."""

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
    """Fine-tuning with the penalty."""

    strength = 1.0  # λ
    anchor: Anchor | None = None  # before the first task has ended

    def penalty(self, head: GrowingHead) -> Tensor | None:
        """Return λ Σ importance · (θ − anchor)²."""
        return None if self.anchor is None else self.strength * self.anchor.penalty(head)

    def add_importance(self, head: GrowingHead, importance: Parameters) -> None:
        """Add to the importance so far, and move the anchor to the head's present parameters."""
        earlier = None if self.anchor is None else self.anchor.importance
        self.anchor = Anchor(head.frozen().parameters, summed(earlier, importance))


def summed(earlier: Parameters | None, new: Parameters) -> dict[str, Tensor]:
    """Return earlier + new by parameter; output rows that the earlier ones lack count as zero there."""
    total = {name: tensor.clone() for name, tensor in new.items()}
    for name, tensor in (earlier or {}).items():
        total[name][: len(tensor)] += tensor
    return total


def fisher(head: GrowingHead, x: Tensor, own: slice) -> dict[str, Tensor]:
    """Return the diagonal of the Fisher information of rows (n, d), by parameter, for p(y|x) among the columns ``own``.

    E_x E_{y ~ p(·|x)} (∂ log p(y|x) / ∂θ)², the expectation over y exact, not sampled. At the output the gradient is
    1[y = c] − p_c, whose mean square is p_c(1 − p_c); at a hidden unit j that is on, it is W_yj − Σ_c p_c W_cj, whose
    mean square is the variance of W_yj under p.
    """
    frozen = head.frozen()
    hidden = frozen.hidden(x)
    p = frozen.output(hidden)[:, own].softmax(dim=1)
    weight = frozen.parameters["output_weight"][own]
    variance = (p @ weight**2 - (p @ weight) ** 2).clamp(min=0)  # rounding may leave −1e-9
    at_output = x.new_zeros(len(x), head.classes)
    at_output[:, own] = p * (1 - p)
    return _layers(at_output, variance * (hidden > 0), x**2, hidden**2)


def output_sensitivity(head: GrowingHead, x: Tensor) -> dict[str, Tensor]:
    """Return the mean over rows (n, d) of |∂‖F(x)‖² / ∂θ| by parameter, F the logits; no label is needed."""
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
