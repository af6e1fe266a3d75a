"""Rows of a view of an embedding store, chosen by number and read when asked for.

Small views are read once and shared by all seeds; a large one is read in runs of whole chunks as a stage walks through
it, so that memory does not grow with the rows. A task's rows lie side by side (manifests are sorted by class), so that
hardly a chunk is read in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.task_features import Rows
from pipeline.store.embedding_store import CHUNK_ROWS, EmbeddingStore

RUN_CHUNKS = (
    32  # read at once at most: a few rows out of all chunks must not mean all rows in memory
)
WHOLE_BYTES = 128 * 2**20  # of a view that is read at once

Matrix = npt.NDArray[np.floating]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class StoredRows:
    """The rows numbered ``places`` (n,), ascending, of a view."""

    store: EmbeddingStore
    view: str
    places: Places

    def __len__(self) -> int:
        return len(self.places)

    @property
    def shape(self) -> tuple[int, int]:
        """As an array's."""
        return len(self.places), self.store.width

    def __getitem__(self, index: Places) -> Matrix:
        """Return the rows at ascending ``index`` (b,) of these, (b, d)."""
        wanted = self.places[index]
        if not len(wanted):
            return self.store.read(self.view, 0, 0)
        chunk = wanted // CHUNK_ROWS
        apart = (np.diff(chunk) > 1) | (np.diff(chunk // RUN_CHUNKS) > 0)
        runs = np.split(wanted, np.flatnonzero(apart) + 1)
        return np.concatenate([self._run(run) for run in runs])

    def _run(self, wanted: Places) -> Matrix:
        """Return rows out of adjacent chunks: one contiguous read."""
        start = int(wanted[0])
        return self.store.read(self.view, start, int(wanted[-1]) + 1)[wanted - start]

    def subset(self, index: Places) -> StoredRows:
        """Return the rows at ``index`` of these, unread."""
        return StoredRows(self.store, self.view, self.places[index])


def rows_of(store: EmbeddingStore, view: str, *, unread: bool = False) -> Rows:
    """Return all rows of a view: as an array if it is small, unless they are to be read in another process."""
    whole = StoredRows(store, view, np.arange(store.rows))
    if not unread and store.row_bytes(view) * store.rows <= WHOLE_BYTES:
        return store.read(view)
    return whole
