"""Mutual attention between the tokens of an image and those of a view of it.

The paper's text asks for it ("stresses the correlated features while suppressing other unrelated information", below
eq. (15)) without a formula; its algorithm and the released code do without. Ours has no parameters, as nothing is
trained: tokens are queries, keys and values themselves. Each token of one picture becomes a mean of the other's
tokens, weighted by likeness; what the two share survives, what only one of them has is averaged away.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def attend(queries: Tensor, keys: Tensor) -> Tensor:
    """Return softmax(q kᵀ / √d) k, (n, L, d), of queries (n, L, d) and keys (n, M, d), image by image."""
    likeness = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1])
    return torch.softmax(likeness, dim=-1) @ keys


def mutual_attention(original: Tensor, view: Tensor) -> Tensor:
    """Return the tokens (n, L, d) that the original's and the view's tokens (n, L, d) agree on.

    The mean of both directions, original to view and view to original, position by position: symmetric in the two.
    """
    return (attend(original, view) + attend(view, original)) / 2
