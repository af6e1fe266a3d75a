"""Who applies a function to many rows: this process by default, or a callable that is passed in.

A function over rows is written as ``function(common, rows)`` and its results combine associatively. A `RowReduction`
may then split the rows into ranges, work on them in other processes and combine the results of neighbouring ranges.
Ranges are whole blocks of `BLOCK_IMAGES` images: each block is the same float32 arithmetic wherever it is done, and
only the order of float64 sums differs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol, Self, TypeVar

import numpy as np

from pipeline.method.rows import BLOCK_IMAGES, Index, Matrix64


class SplittableRows(Protocol):
    """Rows of n images that can be split, such as `ViewRows` and its subclasses."""

    def __len__(self) -> int:
        """Number of images."""

    def take(self, index: Index, /) -> Self:
        """Return the images at ascending ``index`` (b,)."""


Common = TypeVar("Common")
Part = TypeVar("Part", bound=SplittableRows)
Result = TypeVar("Result")


class RowReduction(Protocol):
    """The callable ``reduce_rows`` of the method's functions."""

    def __call__(
        self,
        function: Callable[[Common, Part], Result],
        common: Common,
        rows: Part,
        combine: Callable[[Result, Result], Result],
        /,
    ) -> Result:
        """Return ``function(common, rows)``, computed in parts if that is better."""


def reduce_here(
    function: Callable[[Common, Part], Result],
    common: Common,
    rows: Part,
    combine: Callable[[Result, Result], Result],  # noqa: ARG001  all rows are one part
) -> Result:
    """Apply ``function`` to all rows in this process, see `RowReduction`."""
    return function(common, rows)


def concatenate(earlier: Matrix64, later: Matrix64) -> Matrix64:
    """Join the results (…, n, c) and (…, m, c) of neighbouring rows: the ``combine`` of arrays with a row per image."""
    return np.concatenate([earlier, later], axis=-2)


def row_ranges(n: int, count: int) -> list[Index]:
    """Split the row numbers 0 to n - 1 into ranges of whole blocks of `BLOCK_IMAGES`.

    Parameters
    ----------
    count : int
        Largest number of ranges.

    Returns
    -------
    list of ndarray
        At most ``count`` ranges of nearly equal size, in order.

    Examples
    --------
    >>> [len(r) for r in row_ranges(5000, 2)]
    [4096, 904]
    """
    blocks = -(-n // BLOCK_IMAGES)
    edges = BLOCK_IMAGES * np.linspace(0, blocks, min(count, blocks) + 1).round().astype(int)
    return [np.arange(start, min(stop, n)) for start, stop in pairwise(edges) if stop > start]
