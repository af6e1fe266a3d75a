"""Rows of a view of an embedding store, chosen by number and read when asked for.

Small views are read once and shared by all seeds; a large one is read in runs of whole chunks as a
stage walks through it, so that memory does not grow with the rows. A task's rows lie side by side
(manifests are sorted by class), so that hardly a chunk is read in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Rows
from pipeline.store.embedding_store import CHUNK_ROWS, EmbeddingStore

RUN_CHUNKS = 32  # at most read at once: a few rows of all chunks must not mean all rows in memory
WHOLE_BYTES = 128 * 2**20  # of a view that is read at once

Matrix = npt.NDArray[np.floating]
Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class StoredRows:
    """Some rows of a view; a `LazyRows`."""

    store: EmbeddingStore
    view: str
    index: Index  # the row numbers (n,), ascending

    def __len__(self) -> int:
        return len(self.index)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, d)."""
        return len(self.index), self.store.width

    def __getitem__(self, index: Index) -> Matrix:
        """Return the rows (b, d) at ascending ``index`` (b,) of these."""
        rows = self.index[index]
        if not len(rows):
            return self.store.read(self.view, 0, 0)
        chunk = rows // CHUNK_ROWS
        apart = (np.diff(chunk) > 1) | (np.diff(chunk // RUN_CHUNKS) > 0)
        runs = np.split(rows, np.flatnonzero(apart) + 1)
        return np.concatenate([self._run(run) for run in runs])

    def _run(self, rows: Index) -> Matrix:
        """Return rows of adjacent chunks: one contiguous read."""
        start = int(rows[0])
        return self.store.read(self.view, start, int(rows[-1]) + 1)[rows - start]

    def take(self, index: Index) -> StoredRows:
        """Return the rows at ``index`` of these, unread."""
        return StoredRows(self.store, self.view, self.index[index])


def rows_of(store: EmbeddingStore, view: str, *, lazy: bool = False) -> Rows:
    """Return all rows (n, d) of a view: an array if it is small, else rows that are read when used.

    ``lazy``: never read them here, they are to be read in another process.
    """
    size = store.rows * store.width * store.dtype(view).itemsize
    if not lazy and size <= WHOLE_BYTES:
        return store.read(view)
    return StoredRows(store, view, np.arange(store.rows))
