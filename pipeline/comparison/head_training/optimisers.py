"""Two optimisers on plain tensors.

torch.optim's first step imports torch's compiler: 2.3 s measured, longer than a head trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
MOMENTUM = 0.9


class Optimiser(Protocol):
    """Moves parameters, in place."""

    def step(self, gradients: Sequence[Tensor], progress: float) -> None:
        """Take a step; progress: 0 at the first step of a training, 1 at its end."""


class Adam:
    """Kingma and Ba (2015), Algorithm 1."""

    def __init__(self, parameters: Sequence[Tensor], rate: float) -> None:
        self._parameters = parameters
        self._rate = rate
        self._steps = 0
        self._first = _zeros(parameters)
        self._second = _zeros(parameters)

    def step(self, gradients: Sequence[Tensor], progress: float) -> None:  # noqa: ARG002  one rate throughout
        """Move the parameters, in place."""
        self._steps += 1
        rate = self._rate / (1 - BETA1**self._steps)
        correction = (1 - BETA2**self._steps) ** 0.5
        moments = zip(self._parameters, gradients, self._first, self._second, strict=True)
        for parameter, gradient, first, second in moments:
            first.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
            second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            spread = second.sqrt().div_(correction).add_(EPSILON)
            parameter.detach().addcdiv_(first, spread, value=-rate)


class AnnealedMomentum:
    """Gradient descent with momentum, its rate at progress p μ / (1 + 10 p)^0.75 (Ganin et al., 2016, sec. 5.2.2)."""

    def __init__(self, parameters: Sequence[Tensor], rate: float) -> None:
        self._parameters = parameters
        self._rate = rate
        self._velocity = _zeros(parameters)

    def step(self, gradients: Sequence[Tensor], progress: float) -> None:
        """Move the parameters, in place."""
        rate = self._rate / (1 + 10 * progress) ** 0.75
        moving = zip(self._parameters, gradients, self._velocity, strict=True)
        for parameter, gradient, velocity in moving:
            velocity.mul_(MOMENTUM).add_(gradient)
            parameter.detach().add_(velocity, alpha=-rate)


def _zeros(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [parameter.detach().clone().zero_() for parameter in parameters]
