"""Containers of embedding rows, in memory or read lazily, and reductions over many rows.

Functions that map or sum rows take `Rows`: an array, or lazy rows that a store reads when they are indexed. Index
arrays are ascending row numbers.

A function over many rows is written as ``function(common, rows)``, and its results combine associatively. A
`RowReduction` applies it. `reduce_locally` applies it to all rows in this process; others split the rows into ranges,
process these elsewhere and combine the results of neighbouring ranges. Ranges are whole blocks of `BLOCK_IMAGES`
images. A block's float32 arithmetic is the same everywhere, and only the order of float64 sums differs.
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
Shares = npt.NDArray[np.number]  # (n,) class of each row, or (n, K) share of each row in each of K classes
Index = npt.NDArray[np.intp]

BLOCK_IMAGES = 2048  # images whose features are computed together: bounds the memory, not the result


class LazyRows(Protocol):
    """Rows (n, d) that are read or computed when they are indexed."""

    def __len__(self) -> int:
        """Number of rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (n, d)."""

    def __getitem__(self, index: Index, /) -> Matrix:
        """Return the rows at ``index`` (b,) as an array (b, d)."""

    def take(self, index: Index, /) -> "LazyRows":
        """Return lazy rows at ``index`` (b,) without reading them."""


Rows = Matrix | LazyRows


def take(rows: Rows, index: Index) -> Rows:
    """Return the rows (b, d) at ``index`` (b,): a copy if ``rows`` is an array, otherwise unread lazy rows."""
    return np.asarray(rows[index]) if isinstance(rows, np.ndarray) else rows.take(index)


def as_array(rows: Rows) -> Matrix:
    """Return all rows (n, d) as an array, reading or computing them if they are lazy."""
    return rows if isinstance(rows, np.ndarray) else rows[np.arange(len(rows))]


@dataclass(frozen=True, eq=False)
class ComputedRows:
    """Lazy rows (n, width) computed by a function from other rows of the same n images."""

    function: Callable[..., Matrix]  # takes the rows (b, ·) of each input; returns (b, width)
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
        """Return lazy rows at ``index`` (b,) without computing them."""
        return replace(self, inputs=tuple(take(rows, index) for rows in self.inputs))


def row_blocks(n: int, size: int) -> Iterator[Index]:
    """Yield the row numbers 0 to n - 1 in blocks of ``size``.

    Examples
    --------
    >>> [block.tolist() for block in row_blocks(5, 2)]
    [[0, 1], [2, 3], [4]]
    """
    for start in range(0, n, size):
        yield np.arange(start, min(start + size, n))


def unit_rows(x: Matrix) -> Matrix64:
    """Return the rows of ``x`` (n, d) scaled to unit length, as float64; a zero row stays zero.

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
    """Embeddings of n images, by view."""

    views: Mapping[str, Rows]  # (n, d) embeddings by view

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def take(self, index: Index) -> Self:
        """Return the images at ``index`` (b,), without reading lazy rows."""
        return replace(self, views={name: take(rows, index) for name, rows in self.views.items()})


@dataclass(frozen=True, eq=False)
class UnlabelledRows(ViewRows):
    """Everything a method may see of n unlabelled images; the views are embedded by the vision model."""

    cosines: Rows  # (n, C) CLIP's cosines between each image and the prompts of every class
    clip: Rows | None = None  # (n, d') CLIP's embeddings of the images

    def take(self, index: Index) -> Self:
        """Return the images at ``index`` (b,), without reading lazy rows."""
        clip = None if self.clip is None else take(self.clip, index)
        return replace(super().take(index), cosines=take(self.cosines, index), clip=clip)


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetTask(UnlabelledRows):
    """The unlabelled images of one target task."""

    classes: Index  # (c,) classes of the task, ascending; an image's own class is unknown


@dataclass(frozen=True, eq=False)
class LabelledRows(ViewRows):
    """Images with labels and weights, shared by all views of an image."""

    labels: Shares  # (n,) class of each image, or (n, K) shares in K classes
    weights: Vector64  # (n,) weight of each image, eq. (18), or ones

    def take(self, index: Index) -> Self:
        """Return the images at ``index`` (b,), without reading lazy rows."""
        return replace(super().take(index), labels=self.labels[index], weights=self.weights[index])


# called as reduce_rows(function, common, rows, combine); returns function(common, rows), possibly computed in parts
RowReduction = Callable[[Callable[[Any, Any], Any], Any, Any, Callable[[Any, Any], Any]], Any]


def reduce_locally(
    function: Callable[[Any, Any], Any],
    common: Any,
    rows: ViewRows,
    combine: Callable[[Any, Any], Any],  # noqa: ARG001  there is only one part
) -> Any:
    """Apply ``function`` to all rows in this process, see `RowReduction`."""
    return function(common, rows)


def concatenate(earlier: Matrix64, later: Matrix64) -> Matrix64:
    """Concatenate results (…, n, c) and (…, m, c) of neighbouring rows, as the ``combine`` of a reduction."""
    return np.concatenate([earlier, later], axis=-2)


def row_ranges(n: int, count: int) -> list[Index]:
    """Split the row numbers 0 to n - 1 into at most ``count`` ranges of whole blocks and nearly equal size.

    Examples
    --------
    >>> [len(r) for r in row_ranges(5000, 2)]
    [4096, 904]
    """
    blocks = -(-n // BLOCK_IMAGES)
    edges = BLOCK_IMAGES * np.linspace(0, blocks, min(count, blocks) + 1).round().astype(int)
    return [np.arange(start, min(stop, n)) for start, stop in pairwise(edges) if stop > start]
