"""Rows of embeddings, in memory or in a store; what a method may see of images; how work on many rows is split.

Everything that maps or sums rows takes `Rows`: an array, or rows that a store reads when they are indexed. Index arrays
are ascending row numbers.

A function over many rows is written as ``function(common, rows)``, and its results combine associatively. A
`RowReduction` applies it: `reduce_here` to all rows in this process; others split the rows into ranges, work on them in
other processes and combine the results of neighbouring ranges. Ranges are whole blocks of `BLOCK_IMAGES` images: each
block is the same float32 arithmetic wherever it is done, and only the order of float64 sums differs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError

Matrix = npt.NDArray[np.floating]
Matrix64 = npt.NDArray[np.float64]
Vector64 = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]
Shares = npt.NDArray[np.number]  # (n,) class of each row, or (n, K) the share of each row in each of K classes
Index = npt.NDArray[np.intp]

# images whose features are computed together: bounds the memory, not the result
BLOCK_IMAGES = 2048


class LazyRows(Protocol):
    """Rows (n, d) that are read or computed when they are indexed."""

    def __len__(self) -> int:
        """Number of rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (n, d), as of an array."""

    def __getitem__(self, index: Index, /) -> Matrix:
        """Return the rows at ``index`` (b,) as an array (b, d)."""

    def take(self, index: Index, /) -> "LazyRows":
        """Return the rows at ``index`` without reading them."""


Rows = Matrix | LazyRows


def take(rows: Rows, index: Index) -> Rows:
    """Return the rows (b, d) at ``index`` (b,): a copy of an array's rows, lazy rows without reading them."""
    return np.asarray(rows[index]) if isinstance(rows, np.ndarray) else rows.take(index)


def as_array(rows: Rows) -> Matrix:
    """Return all rows (n, d) in memory, reading or computing them if they are lazy."""
    return rows if isinstance(rows, np.ndarray) else rows[np.arange(len(rows))]


@dataclass(frozen=True, eq=False)
class ComputedRows:
    """Rows (n, width) that a function computes from other rows of the same n images when they are indexed."""

    function: Callable[..., Matrix]  # of the inputs' rows at an index, (b, ·) each; returns (b, width)
    inputs: tuple[Rows, ...]
    width: int

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, width)."""
        return len(self), self.width

    def __getitem__(self, index: Index) -> Matrix:
        return self.function(*(rows[index] for rows in self.inputs))

    def take(self, index: Index) -> Self:
        """Return the rows at ``index`` without computing them."""
        return replace(self, inputs=tuple(take(rows, index) for rows in self.inputs))


def row_blocks(n: int, size: int) -> Iterator[Index]:
    """Yield the row numbers 0 to n - 1 in order, ``size`` at a time.

    Examples
    --------
    >>> [block.tolist() for block in row_blocks(5, 2)]
    [[0, 1], [2, 3], [4]]
    """
    for start in range(0, n, size):
        yield np.arange(start, min(start + size, n))


def unit_rows(x: Matrix) -> Matrix64:
    """Return the rows of ``x`` (n, d) divided by their Euclidean norms, float64; a zero row stays zero.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    x64 = x.astype(np.float64)
    norms = np.linalg.norm(x64, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        row = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise InputError(f"embeddings: row {row} of {len(x)} is not finite (NaN or infinity)")
    unit: Matrix64 = np.divide(x64, norms, out=np.zeros_like(x64), where=norms > 0)
    return unit


@dataclass(frozen=True, eq=False)
class ViewRows:
    """Embeddings of the views of n images."""

    views: Mapping[str, Rows]  # (n, d) embeddings by the name of the view

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def take(self, index: Index) -> Self:
        """Return the images at ``index`` (b,), lazy rows without reading them."""
        return replace(self, views={name: take(rows, index) for name, rows in self.views.items()})


@dataclass(frozen=True, eq=False)
class UnlabelledRows(ViewRows):
    """All that a method may see of n images: no label. The views are the vision model's."""

    cosines: Rows  # (n, C) between each image and the prompts of every class, in CLIP's space
    clip: Rows | None = None  # (n, d') CLIP's embeddings of the images

    def take(self, index: Index) -> Self:
        """Return the images at ``index`` (b,), lazy rows without reading them."""
        clip = None if self.clip is None else take(self.clip, index)
        return replace(super().take(index), cosines=take(self.cosines, index), clip=clip)


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetTask(UnlabelledRows):
    """The unlabelled images of one target task."""

    classes: Index  # (c,) the task's class set, ascending. Which image has which class is not known


@dataclass(frozen=True, eq=False)
class LabelledRows(ViewRows):
    """Images with labels and weights, which all views of an image share."""

    labels: Shares  # (n,) class of each image, or (n, K) its share in each of K classes
    weights: Vector64  # (n,) weight of each image, eq. (18), or ones

    def take(self, index: Index) -> Self:
        """Return the images at ``index`` (b,), lazy rows without reading them."""
        return replace(super().take(index), labels=self.labels[index], weights=self.weights[index])


# (function(common, rows), common, rows, combine) to function(common, rows), computed in parts if that is better
RowReduction = Callable[[Callable[[Any, Any], Any], Any, Any, Callable[[Any, Any], Any]], Any]


def reduce_here(
    function: Callable[[Any, Any], Any],
    common: Any,
    rows: ViewRows,
    combine: Callable[[Any, Any], Any],  # noqa: ARG001  all rows are one part
) -> Any:
    """Apply ``function`` to all rows in this process, see `RowReduction`."""
    return function(common, rows)


def concatenate(earlier: Matrix64, later: Matrix64) -> Matrix64:
    """Join the results (…, n, c) and (…, m, c) of neighbouring rows: the ``combine`` of arrays with a row per image."""
    return np.concatenate([earlier, later], axis=-2)


def row_ranges(n: int, count: int) -> list[Index]:
    """Split the row numbers 0 to n - 1 into at most ``count`` ranges of nearly equal size, in order, of whole blocks.

    Examples
    --------
    >>> [len(r) for r in row_ranges(5000, 2)]
    [4096, 904]
    """
    blocks = -(-n // BLOCK_IMAGES)
    edges = BLOCK_IMAGES * np.linspace(0, blocks, min(count, blocks) + 1).round().astype(int)
    return [np.arange(start, min(stop, n)) for start, stop in pairwise(edges) if stop > start]
