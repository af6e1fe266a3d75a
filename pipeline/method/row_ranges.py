"""Work over many rows, range by range, perhaps in other places: what a sum or a list over rows needs to know of it.

Ranges are whole blocks of `IMAGES` rows: each block is then the same float32 arithmetic wherever it is done, and only
the order of float64 sums differs. Without somebody who takes ranges, everything is done here, in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

IMAGES = 2048  # whose features are made at a time: bounds the memory, not the result

Places = npt.NDArray[np.intp]
Shared = TypeVar("Shared")
Part = TypeVar("Part")
Result = TypeVar("Result")


class RowRanges(Protocol):
    """Does the parts of a piece of work, side by side; ``shared`` is what all of them need."""

    def count(self) -> int:
        """How many parts are worth making."""

    def summed(
        self, function: Callable[[Shared, Part], Any], shared: Shared, parts: Sequence[Part]
    ) -> Any:
        """Return the sum of ``function(shared, part)``, of things that add."""

    def listed(
        self, function: Callable[[Shared, Part], Result], shared: Shared, parts: Sequence[Part]
    ) -> list[Result]:
        """Return ``function(shared, part)`` of every part, in order."""


def ranges_of(places: Places, count: int) -> list[Places]:
    """Return ascending ``places`` (n,) in at most ``count`` ranges of whole blocks, nearly equal in size."""
    blocks = -(-len(places) // IMAGES)
    edges = IMAGES * np.linspace(0, blocks, min(count, blocks) + 1).round().astype(int)
    return [places[start:stop] for start, stop in pairwise(edges) if stop > start]
