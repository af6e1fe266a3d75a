"""Fourier features of one task's images, by view: made in blocks, kept where they are few.

A task's features are asked for several times (to label, to fold in, again in every round). They are not stored on
disk: n × 6000 floats are eight times the embeddings and slower to read than to make. In memory they are kept when
they are small; a large task makes them anew each time, and its memory does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipeline.method.random_fourier_features import Basis, deviation
from pipeline.method.row_ranges import IMAGES, RowRanges
from pipeline.method.zero_shot import Matrix

__all__ = ["IMAGES", "Rows", "TaskFeatures", "UnreadRows", "blocks_of", "kept_whole", "subset"]

KEPT_BYTES = 256 * 2**20  # of features kept for one task


class UnreadRows(Protocol):
    """Rows of embeddings (n, d) that are read when asked for."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """As an array's."""

    def __getitem__(self, index: npt.NDArray[np.intp]) -> Matrix: ...

    def subset(self, index: npt.NDArray[np.intp]) -> UnreadRows:
        """Return the rows at ascending ``index`` (b,) of these, unread."""


Rows = Matrix | UnreadRows


def subset(rows: Rows, index: npt.NDArray[np.intp]) -> Rows:
    """Return the rows at ascending ``index`` (b,): an array's copied, stored ones still unread."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[index])
    return rows.subset(index)


def blocks_of(n: int, size: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the numbers 0 … n−1 in order, ``size`` at a time."""
    for start in range(0, n, size):
        yield np.arange(start, min(start + size, n))


def kept_whole(n: int, views: int, D: int) -> bool:
    """Are the features of so many images few enough to be kept in memory?"""
    return n * views * D * 4 <= KEPT_BYTES


class TaskFeatures:
    """Deviations z − pivot (n, D) float32 of every view of a task's n images.

    elsewhere: who takes ranges of the rows, where they are too many to be kept. keep: False for such a range.
    """

    def __init__(
        self,
        basis: Basis,
        views: Mapping[str, Rows],
        *,
        elsewhere: RowRanges | None = None,
        keep: bool = True,
    ) -> None:
        self.basis = basis
        self.views = views
        self._is_kept = keep and kept_whole(len(self), len(views), basis.D)
        self.elsewhere = None if self._is_kept else elsewhere
        self._kept: dict[str, npt.NDArray[np.float32]] = {}
        self._wider: TaskFeatures | None = None

    def nested(self, D: int) -> TaskFeatures:
        """Return the features under the first ``D`` columns, made from these where these are kept."""
        narrow = TaskFeatures(self.basis.nested(D), self.views)
        narrow._wider = self if self._is_kept else None
        return narrow

    def __len__(self) -> int:
        return len(next(iter(self.views.values())))

    def of(
        self, view: str, images: npt.NDArray[np.intp], member: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the features (b, D) of images given by their ascending places (b,).

        member: of an ensemble, whose columns alone are wanted.
        """
        if self._wider is not None:
            ratio = np.float32(self.basis.scale / self._wider.basis.scale)
            return ratio * self._wider.kept(view)[images, : self.basis.D]
        if not self._is_kept:
            basis = self.basis if member is None else self.basis.member(member)
            return deviation(basis, self.views[view][images])
        columns = slice(None) if member is None else self.basis.columns[member]
        return self.kept(view)[images, columns]

    def kept(self, view: str) -> npt.NDArray[np.float32]:
        """Return the features (n, D) of a view, made once."""
        if view not in self._kept:
            everything = np.arange(len(self))
            self._kept[view] = deviation(self.basis, self.views[view][everything])
        return self._kept[view]
