"""A small head over unit embeddings whose output grows with the classes: the only thing that a head method trains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.method.zero_shot import Matrix, unit_rows

if TYPE_CHECKING:
    from torch import Generator, Tensor

HIDDEN = 128  # width of the hidden layer


@dataclass(frozen=True, eq=False)
class GrowingHead:
    """relu(x Vᵀ + a) Wᵀ + b: one hidden layer shared by all classes, one output row per class seen.

    parameters: hidden_weight V (h, d), hidden_bias a (h,), output_weight W (C, h), output_bias b (C,).
    """

    parameters: dict[str, Tensor]

    @property
    def classes(self) -> int:
        """Number of classes seen."""
        return len(self.parameters["output_bias"])

    def hidden(self, x: Tensor) -> Tensor:
        """Return the hidden layer (n, h) of rows (n, d): what stands for the features of a method's own network."""
        return (x @ self.parameters["hidden_weight"].T + self.parameters["hidden_bias"]).relu()

    def output(self, hidden: Tensor) -> Tensor:
        """Return the logits (n, C) of hidden rows (n, h)."""
        return hidden @ self.parameters["output_weight"].T + self.parameters["output_bias"]

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits (n, C) of rows (n, d)."""
        return self.output(self.hidden(x))

    def grown(self, classes: int, generator: Generator) -> GrowingHead:
        """Return the head with ``classes`` more output rows, drawn anew; the others are kept."""
        import torch

        old = self.parameters
        width = old["output_weight"].shape[1]
        weight = torch.randn(classes, width, generator=generator) / math.sqrt(width)
        new = {"output_weight": weight, "output_bias": torch.zeros(classes)}
        both = {name: torch.cat([old[name].detach(), rows]) for name, rows in new.items()}
        return GrowingHead({n: t.detach().requires_grad_() for n, t in (old | both).items()})

    def frozen(self) -> GrowingHead:
        """Return a copy that training does not touch: the old model of a distillation."""
        return GrowingHead({name: t.detach().clone() for name, t in self.parameters.items()})


def new_head(d: int, generator: Generator, *, width: int = HIDDEN) -> GrowingHead:
    """Return a head of no classes for rows of d numbers, drawn as He et al. (2015) draw for relu."""
    import torch

    weight = torch.randn(width, d, generator=generator) * math.sqrt(2 / d)
    return GrowingHead(
        {
            "hidden_weight": weight.requires_grad_(),
            "hidden_bias": torch.zeros(width, requires_grad=True),
            "output_weight": torch.zeros(0, width, requires_grad=True),
            "output_bias": torch.zeros(0, requires_grad=True),
        }
    )


def head_input(x: Matrix, centre: Matrix) -> Tensor:
    """Return embeddings (n, d) as a head's input: directions from ``centre`` (d,), rows of length sqrt(d), float32.

    Unit embeddings share most of their direction; without it a head starts from rows that differ. sqrt(d): numbers of
    order one, for which `new_head` draws.
    """
    import torch

    directions = unit_rows(unit_rows(x) - centre)
    return torch.from_numpy((math.sqrt(x.shape[1]) * directions).astype(np.float32))
