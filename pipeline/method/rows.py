"""Rows of embeddings, in memory or in a store, and what a method may see of unlabelled images.

Everything that maps or sums rows takes `Rows`: an array, or rows that a store reads when they are indexed. Index arrays
are ascending row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

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

    def take(self, index: Index, /) -> LazyRows:
        """Return the rows at ``index`` without reading them."""


Rows = Matrix | LazyRows


def take(rows: Rows, index: Index) -> Rows:
    """Return the rows (b, d) at ascending ``index`` (b,): a copy of an array's rows, lazy rows without reading them.

    Examples
    --------
    >>> take(np.array([[1.0], [2.0], [3.0]]), np.array([0, 2]))
    array([[1.],
           [3.]])
    """
    return np.asarray(rows[index]) if isinstance(rows, np.ndarray) else rows.take(index)


def as_array(rows: Rows) -> Matrix:
    """Return all rows (n, d) in memory, reading or computing them if they are lazy."""
    return rows if isinstance(rows, np.ndarray) else rows[np.arange(len(rows))]


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
    """Return the rows of ``x`` divided by their Euclidean norms.

    Parameters
    ----------
    x : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n, d), float64
        A zero row stays zero.

    Raises
    ------
    InputError
        If a row holds NaN or infinity.

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
