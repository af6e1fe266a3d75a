"""Mean magnitudes of per-row gradients of a head, without a loop over the rows.

The gradient of one row with respect to a layer's weight is an outer product, δ inᵀ. So the mean over rows of its
squares is (δ²)ᵀ(in²) / n and that of its absolute values |δ|ᵀ|in| / n: one product per layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.comparison.head_training.growing_head import GrowingHead

if TYPE_CHECKING:
    from torch import Tensor


def fisher(head: GrowingHead, x: Tensor, own: slice) -> dict[str, Tensor]:
    """Return the diagonal of the Fisher information of rows (n, d), by parameter, for p(y | x) among ``own`` columns.

    E over x of E over y ~ p(· | x) of (∂ log p(y | x) / ∂θ)², the expectation over y exact and not sampled. At the
    output the gradient is 1[y = c] − p_c, whose square is p_c(1 − p_c) on average; at hidden unit j it is
    W_yj − Σ_c p_c W_cj where the unit is on, whose square is on average the variance of W_yj under p.
    """
    parameters = head.frozen()
    hidden = parameters.hidden(x)
    p = parameters.output(hidden)[:, own].softmax(dim=1)
    weight = parameters.parameters["output_weight"][own]
    variance = (p @ weight**2 - (p @ weight) ** 2).clamp(min=0)  # rounding may leave −1e-9
    at_output = x.new_zeros(len(x), head.classes)
    at_output[:, own] = p * (1 - p)
    return _layers(at_output, variance * (hidden > 0), x**2, hidden**2)


def output_sensitivity(head: GrowingHead, x: Tensor) -> dict[str, Tensor]:
    """Return the mean over rows (n, d) of |∂ ‖F(x)‖² / ∂θ|, by parameter, F the logits: no label is needed."""
    parameters = head.frozen()
    hidden = parameters.hidden(x)
    at_output = 2 * parameters.output(hidden)
    at_hidden = (at_output @ parameters.parameters["output_weight"]) * (hidden > 0)
    return _layers(at_output.abs(), at_hidden.abs(), x.abs(), hidden)


def _layers(output: Tensor, hidden: Tensor, x: Tensor, z: Tensor) -> dict[str, Tensor]:
    """Return the means of the outer products of magnitudes: at the output (n, C) and z (n, h), hidden (n, h) and x."""
    return {
        "hidden_weight": hidden.T @ x / len(x),
        "hidden_bias": hidden.mean(dim=0),
        "output_weight": output.T @ z / len(x),
        "output_bias": output.mean(dim=0),
    }
