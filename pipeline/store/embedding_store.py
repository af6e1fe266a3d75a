"""Embeddings of a domain's images by one model: a Zarr v3 group with one (n, d) array per view.

Rows are in manifest order. Shards of 32,768 rows keep the number of files small (DVC is slow with many files, not with
many bytes). Nothing in a store depends on when, where or by whom it was made: the same input gives the same bytes, so
teammates' hashes agree.

Small views are read once and shared by all seeds; a large one is read in runs of whole chunks as a stage walks through
it (`StoredRows`), so that memory does not grow with the rows. A task's rows lie side by side (manifests are sorted by
class), so that hardly a chunk is read in vain.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import StoreError
from pipeline.method.rows import Index, Matrix, Rows
from pipeline.store.array_layout import ShardedRows, sharded_rows
from pipeline.store.array_store import damaged, differences, open_group, unusable, writing

if TYPE_CHECKING:
    import zarr

SCHEMA = "referee-embeddings/2"
CHUNK_ROWS = 1024
SHARD_ROWS = 32_768
RUN_CHUNKS = 32  # at most read at once: a few rows of all chunks must not mean all rows in memory
WHOLE_BYTES = 128 * 2**20  # of a view that is read at once
WAITING = "waiting"  # the name of a task
BACKBONE = ("model", "weights", "preprocessing", "precision")  # in a store's attributes

Provenance = dict[str, Any]


@dataclass(frozen=True)
class EmbeddedView:
    """The rows (n, d) of one view, to be written."""

    rows: int
    width: int
    dtype: str  # "float16" or "float32"
    settings: Provenance  # how the view was made; kept as the array's attributes
    shards: Iterable[Matrix]  # the rows in order, at most `SHARD_ROWS` at a time


def write_embeddings(path: Path, views: Mapping[str, EmbeddedView], provenance: Provenance) -> None:
    """Write views of one shape to a temporary name, then rename to ``path``, which is never half written.

    ``provenance`` are attributes: domain, model, weights, preprocessing, precision, rows_digest.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "vit.zarr"
    >>> x = np.arange(6, dtype=np.float16).reshape(3, 2)
    >>> write_embeddings(path, {"original": EmbeddedView(3, 2, "float16", {}, [x])}, {"domain": "dslr"})
    >>> store = open_embeddings(path)
    >>> store.rows, store.width, store.views
    (3, 2, ('original',))
    >>> store.read("original", 1, 3)
    array([[2., 3.],
           [4., 5.]], dtype=float16)
    """
    import zarr  # the library that the format belongs to writes it; a quarter of a second, so not for who only reads
    from zarr.codecs import Crc32cCodec
    from zarr.core.sync import sync

    with writing(path, SCHEMA) as group:
        group.attributes.update({"views": list(views), **provenance})
        try:
            for name, view in views.items():
                array = zarr.create_array(
                    group.path / name,
                    shape=(view.rows, view.width),
                    dtype=view.dtype,
                    chunks=(CHUNK_ROWS, view.width),
                    shards=(SHARD_ROWS, view.width),
                    compressors=Crc32cCodec(),  # embeddings compress 1.09 times: not worth the time
                    fill_value=float("nan"),  # a row that was never written must not look like a row
                    attributes=view.settings,
                )
                _fill(array, name, view)
        finally:  # after an interrupt Zarr's threads go on, and would make the folder again that is about to be removed
            sync(_wait_for_the_rest())


async def _wait_for_the_rest() -> None:
    """Return when Zarr's loop has nothing left to do but to wait, here or for another thread."""
    import asyncio  # 20 ms, as above

    if task := asyncio.current_task():
        task.set_name(WAITING)
    while rest := [task for task in asyncio.all_tasks() if task.get_name() != WAITING]:
        await asyncio.wait(rest)


def _fill(array: "zarr.Array[Any]", name: str, view: EmbeddedView) -> None:
    """Write the rows of a view; refuse what is not finite, and another number of rows than was announced."""
    start = 0
    for rows in view.shards:
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            raise StoreError(
                f"view {name!r}, row {start + int(bad.argmax())}: the embedding is not finite "
                f"({int(bad.sum())} such rows); if float16 overflows, set the model's stored_as: float32 "
                "or its precision: bfloat16"
            )
        array[start : start + len(rows)] = rows
        start += len(rows)
    if start != view.rows:
        raise StoreError(f"view {name!r}: {start} rows were produced, {view.rows} announced")


@dataclass(frozen=True)
class EmbeddingStore:
    """A store opened for reading; every view has the shape (rows, width)."""

    path: Path
    provenance: Provenance  # the store's attributes
    views: tuple[str, ...]
    rows: int
    width: int
    _arrays: Mapping[str, ShardedRows]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a path; the other process opens it."""
        return open_embeddings, (self.path.absolute(),)

    def read(self, view: str, start: int = 0, stop: int | None = None) -> Matrix:
        """Return rows ``start:stop`` (n, d) of a view as stored; a damaged chunk is a `StoreError`."""
        array = self._array(view)
        first, last, _ = slice(start, stop).indices(self.rows)
        try:
            return array.read(first, max(first, last))
        except (ValueError, OSError) as error:
            raise damaged(self.path / view, error, store=self.path) from None

    def blocks(self, view: str) -> Iterator[Matrix]:
        """Yield the rows of a view in order, `SHARD_ROWS` at a time, in bounded memory."""
        for start in range(0, self.rows, SHARD_ROWS):
            yield self.read(view, start, start + SHARD_ROWS)

    def dtype(self, view: str) -> np.dtype[Any]:
        """Return the type of a view's numbers."""
        return self._array(view).dtype

    def settings(self, view: str) -> Provenance:
        """Return how a view was made."""
        return dict(self._array(view).attributes)

    def _array(self, view: str) -> ShardedRows:
        if view not in self.views:
            raise StoreError(
                f"{self.path}: has no view {view!r} (it has {', '.join(self.views)}); "
                "add it to the domain's views in suite.yaml and run dvc repro, or use the features without it: "
                "method.variant: no_augmentation in params.yaml"
            )
        return self._arrays[view]

    @property
    def backbone(self) -> Provenance:
        """What made the rows, without an imported file's name; equal where rows are comparable."""
        backbone = {key: self.provenance.get(key) for key in BACKBONE}
        model = backbone["model"]
        if isinstance(model, dict):
            backbone["model"] = {key: value for key, value in model.items() if key != "file"}
        return backbone

    @property
    def model_widths(self) -> tuple[int, ...]:
        """The number of columns of each model, where several stand side by side; otherwise the width."""
        model = self.provenance.get("model")
        parts = model.get("parts", ()) if isinstance(model, dict) else ()
        return tuple(int(part["width"]) for part in parts) or (self.width,)

    def require(self, expected: Mapping[str, Any]) -> None:
        """Raise a `StoreError` naming both sides where provenance differs from ``expected``."""
        for key, value in expected.items():
            if (found := self.provenance.get(key)) != value:
                needed = f"made with {key} = {short(found)}, but {short(value)} is needed"
                raise unusable(self.path, needed)

    def require_backbone(self, backbone: Mapping[str, Any], other: Path) -> None:
        """Raise a `StoreError` naming both sides unless ``backbone``, of ``other``, made the rows."""
        for key, mine, theirs in differences(self.backbone, backbone):
            raise StoreError(
                f"{self.path}: made with {key} = {short(mine)}, but {other} with {short(theirs)}; rows of two "
                "backbones cannot be compared: run dvc repro"
            )


def open_embeddings(path: Path) -> EmbeddingStore:
    """Open a store and check that it is whole: schema, metadata, shapes, and the size of every shard."""
    attributes, arrays = open_group(path, SCHEMA, sharded_rows)
    views = attributes.get("views")
    if not views or not isinstance(views, list) or sorted(map(str, views)) != sorted(arrays):
        raise unusable(path, "its views are not its arrays")
    shapes = {view: array.shape for view, array in arrays.items()}
    if len(set(shapes.values())) != 1:
        raise unusable(path, f"views of different shapes {shapes}")
    provenance = {**attributes, "schema": SCHEMA}
    return EmbeddingStore(path, provenance, tuple(map(str, views)), *next(iter(shapes.values())), arrays)


@dataclass(frozen=True)
class StoredRows:
    """Some rows of a view, read when they are indexed; a `LazyRows`."""

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
        """Return the rows (b, d) at ascending ``index`` (b,) of these: one contiguous read for adjacent chunks."""
        rows = self.index[index]
        if not len(rows):
            return self.store.read(self.view, 0, 0)
        chunk = rows // CHUNK_ROWS
        apart = (np.diff(chunk) > 1) | (np.diff(chunk // RUN_CHUNKS) > 0)
        runs = np.split(rows, np.flatnonzero(apart) + 1)
        return np.concatenate([self.store.read(self.view, int(r[0]), int(r[-1]) + 1)[r - r[0]] for r in runs])

    def take(self, index: Index) -> "StoredRows":
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


def short(value: object) -> str:
    """Return a value of a store's attributes for a message, cut."""
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
