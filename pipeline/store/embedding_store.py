"""Store a domain's embeddings by one model: a Zarr v3 group with one (n, d) array per view.

Rows are in manifest order. Shards of 32,768 rows keep the number of files small (DVC is slow with many files, not with
many bytes). Nothing in a store depends on when, where or by whom it was made: the same input gives the same bytes, so
teammates' hashes agree.

Small views are read once and shared by all seeds. Large ones are read in runs of whole chunks as a stage walks through
them (`StoredRows`), so that memory does not grow with the number of rows. A task's rows are mostly contiguous
(manifests are sorted by class), so few chunks are read for nothing.
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
RUN_CHUNKS = 32  # maximum chunks per read: rows scattered over all chunks must not load them all
WHOLE_BYTES = 128 * 2**20  # maximum size of a view that is read in one go
WAITING = "waiting"  # name of an asyncio task
BACKBONE = ("model", "weights", "preprocessing", "precision")  # attributes of a store

Provenance = dict[str, Any]


@dataclass(frozen=True)
class EmbeddedView:
    """The rows (n, d) of one view, to be written."""

    rows: int
    width: int
    dtype: str  # "float16" or "float32"
    settings: Provenance  # how the view was made; kept as the array's attributes
    shards: Iterable[Matrix]  # the rows in order, in blocks of at most `SHARD_ROWS`


def write_embeddings(path: Path, views: Mapping[str, EmbeddedView], provenance: Provenance) -> None:
    """Write views of equal shape to ``path``, which is never left half-written.

    ``provenance`` becomes attributes: domain, model, weights, preprocessing, precision, rows_digest.

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
    import zarr  # here, because it takes a quarter of a second and readers do not need it
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
                    compressors=Crc32cCodec(),  # the compression ratio is only 1.09
                    fill_value=float("nan"),  # a row that was never written must not look like a row
                    attributes=view.settings,
                )
                _fill(array, name, view)
        finally:  # after an interrupt Zarr's threads continue, and would recreate the folder after its removal
            sync(_wait_for_other_tasks())


async def _wait_for_other_tasks() -> None:
    """Wait until every other task of Zarr's event loop has finished."""
    import asyncio  # here, because it takes 20 ms

    if task := asyncio.current_task():
        task.set_name(WAITING)
    while rest := [task for task in asyncio.all_tasks() if task.get_name() != WAITING]:
        await asyncio.wait(rest)


def _fill(array: "zarr.Array[Any]", name: str, view: EmbeddedView) -> None:
    """Write the rows of a view; raise StoreError if a number is not finite or the number of rows is wrong."""
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
        raise StoreError(f"view {name!r}: {start} rows were produced, {view.rows} expected")


@dataclass(frozen=True)
class EmbeddingStore:
    """A store opened for reading; every view has shape (rows, width)."""

    path: Path
    provenance: Provenance  # the store's attributes
    views: tuple[str, ...]
    rows: int
    width: int
    _arrays: Mapping[str, ShardedRows]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a path, to be opened by the other process."""
        return open_embeddings, (self.path.absolute(),)

    def read(self, view: str, start: int = 0, stop: int | None = None) -> Matrix:
        """Return rows ``start:stop`` (n, d) of a view as stored; raise StoreError if a chunk is damaged."""
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
        """Return the dtype of a view."""
        return self._array(view).dtype

    def settings(self, view: str) -> Provenance:
        """Return the settings with which a view was made."""
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
        """The model that made the rows, without the name of an imported file; equal if rows are comparable."""
        backbone = {key: self.provenance.get(key) for key in BACKBONE}
        model = backbone["model"]
        if isinstance(model, dict):
            backbone["model"] = {key: value for key, value in model.items() if key != "file"}
        return backbone

    @property
    def model_widths(self) -> tuple[int, ...]:
        """The number of columns of each joined model; (width,) for a single model."""
        model = self.provenance.get("model")
        parts = model.get("parts", ()) if isinstance(model, dict) else ()
        return tuple(int(part["width"]) for part in parts) or (self.width,)

    def require(self, expected: Mapping[str, Any]) -> None:
        """Raise StoreError naming both values if the provenance differs from ``expected``."""
        for key, value in expected.items():
            if (recorded := self.provenance.get(key)) != value:
                raise unusable(self.path, f"made with {key} = {shortened(recorded)}, but {shortened(value)} is needed")

    def require_backbone(self, backbone: Mapping[str, Any], other: Path) -> None:
        """Raise StoreError naming both values unless ``backbone``, used by ``other``, made these rows too."""
        for key, left, right in differences(self.backbone, backbone):
            raise StoreError(
                f"{self.path}: made with {key} = {shortened(left)}, but {other} with {shortened(right)}; rows of two "
                "backbones cannot be compared: run dvc repro"
            )


def open_embeddings(path: Path) -> EmbeddingStore:
    """Open a store after checking its schema, metadata, shapes, and the size of every shard."""
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
    """A selection of a view's rows, read when they are indexed; implements `LazyRows`."""

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
        """Return the rows (b, d) at ascending ``index`` (b,), with one contiguous read per run of adjacent chunks."""
        rows = self.index[index]
        if not len(rows):
            return self.store.read(self.view, 0, 0)
        chunk = rows // CHUNK_ROWS
        is_gap = (np.diff(chunk) > 1) | (np.diff(chunk // RUN_CHUNKS) > 0)
        runs = np.split(rows, np.flatnonzero(is_gap) + 1)
        return np.concatenate([self.store.read(self.view, int(r[0]), int(r[-1]) + 1)[r - r[0]] for r in runs])

    def take(self, index: Index) -> "StoredRows":
        """Return the selection of the rows at ``index``, without reading them."""
        return StoredRows(self.store, self.view, self.index[index])


def rows_of(store: EmbeddingStore, view: str, *, lazy: bool = False) -> Rows:
    """Return all rows (n, d) of a view: an array if it is small, otherwise rows that are read on access.

    With ``lazy``, nothing is read here, because another process will read the rows.
    """
    size = store.rows * store.width * store.dtype(view).itemsize
    if not lazy and size <= WHOLE_BYTES:
        return store.read(view)
    return StoredRows(store, view, np.arange(store.rows))


def shortened(value: object) -> str:
    """Return an attribute's value as text for a message, truncated to 120 characters."""
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
