"""Σ importance · (θ − anchor)²: the penalty that EWC, SI, MAS and RWalk share; they differ in the importance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.comparison.head_training.growing_head import GrowingHead

if TYPE_CHECKING:
    from torch import Tensor

Parameters = Mapping[str, "Tensor"]


@dataclass(frozen=True, eq=False)
class Anchor:
    """Where parameters should stay, and how much each one matters: tensors by name, of the classes seen by then."""

    at: Parameters
    importance: Parameters

    def penalty(self, head: GrowingHead) -> Tensor:
        """Return Σ importance · (θ − at)² over the parameters there were; output rows of later classes are free."""
        terms = [
            (self.importance[name] * (head.parameters[name][: len(at)] - at) ** 2).sum()
            for name, at in self.at.items()
        ]
        return sum(terms[1:], start=terms[0])


def anchored(head: GrowingHead, importance: Parameters) -> Anchor:
    """Return an anchor at the head's present parameters."""
    return Anchor(head.frozen().parameters, importance)


def summed(earlier: Parameters | None, new: Parameters) -> dict[str, Tensor]:
    """Return earlier + new, parameter by parameter; rows that the earlier ones did not have count as zero there."""
    total = {name: tensor.clone() for name, tensor in new.items()}
    for name, tensor in (earlier or {}).items():
        total[name][: len(tensor)] += tensor
    return total
