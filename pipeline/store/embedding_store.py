"""Embeddings of a domain's images by one model: a Zarr v3 group with one (n, d) array per view.

Rows are in manifest order. Shards of 32,768 rows keep the number of files small (DVC is slow with
many files, not with many bytes); inner chunks of 1,024 rows carry a CRC, so a flipped bit is an
error on reading and never a number. Nothing in a store depends on when, where or by whom it was
made: the same input gives the same bytes, so teammates' hashes agree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError
from pipeline.store.seal import damaged, read_sealed, unusable
from pipeline.store.shard_reader import ShardReader, shard_reader

if TYPE_CHECKING:
    import zarr

SCHEMA = "referee-embeddings/2"
CHUNK_ROWS = 1024
SHARD_ROWS = 32_768
BACKBONE = ("model", "weights", "preprocessing", "precision")  # in a store's attributes

Provenance = dict[str, Any]
Matrix = npt.NDArray[np.floating]


def digest_of(settings: Mapping[str, Any]) -> str:
    """Return the sha256 of JSON-like settings, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class ViewRows:
    """The rows (n, d) of one view, to be written."""

    rows: int
    width: int
    dtype: str  # "float16" or "float32"
    settings: Provenance  # how the view was made; kept as the array's attributes
    shards: Iterable[Matrix]  # the rows in order, at most `SHARD_ROWS` at a time


def write_embeddings(path: Path, views: Mapping[str, ViewRows], provenance: Provenance) -> None:
    """Write to a temporary name, then rename to ``path``, which is never half written.

    Parameters
    ----------
    path : Path
        The store; one that exists is replaced.
    views : mapping of str to ViewRows
        Views by name, all of one shape.
    provenance : dict
        Attributes of the store: domain, model, weights, preprocessing, precision, rows_digest.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "vit.zarr"
    >>> x = np.arange(6, dtype=np.float16).reshape(3, 2)
    >>> write_embeddings(path, {"original": ViewRows(3, 2, "float16", {}, [x])}, {"domain": "dslr"})
    >>> store = open_embeddings(path)
    >>> store.rows, store.width, store.views
    (3, 2, ('original',))
    >>> store.read("original", 1, 3)
    array([[2., 3.],
           [4., 5.]], dtype=float16)
    """
    from zarr.codecs import Crc32cCodec

    from pipeline.store.zarr_group import sealed_group

    attributes = {"schema": SCHEMA, "views": list(views), **provenance}
    with sealed_group(path, attributes) as group:
        for name, view in views.items():
            array = group.create_array(
                name,
                shape=(view.rows, view.width),
                dtype=view.dtype,
                chunks=(CHUNK_ROWS, view.width),
                shards=(SHARD_ROWS, view.width),
                compressors=Crc32cCodec(),  # embeddings compress 1.09 times: not worth the time
                fill_value=float("nan"),  # a row that was never written must not look like a row
                attributes=view.settings,
            )
            _fill(array, name, view)


def _fill(array: zarr.Array[Any], name: str, view: ViewRows) -> None:
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
    _readers: Mapping[str, ShardReader]
    _settings: Mapping[str, Provenance]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a path; the other process opens it."""
        return open_embeddings, (self.path.absolute(),)

    def read(self, view: str, start: int = 0, stop: int | None = None) -> Matrix:
        """Return rows ``start:stop`` (n, d) of a view as stored; a damaged chunk is a `StoreError`."""
        reader = self._reader(view)
        first, last, _ = slice(start, stop).indices(self.rows)
        try:
            return reader.read(first, max(first, last))
        except (ValueError, OSError) as error:
            raise damaged(self.path / view, error, store=self.path) from None

    def blocks(self, view: str, size: int = SHARD_ROWS) -> Iterator[Matrix]:
        """Yield the rows of a view in order, ``size`` at a time, in bounded memory."""
        for start in range(0, self.rows, size):
            yield self.read(view, start, start + size)

    def dtype(self, view: str) -> np.dtype[Any]:
        """Return the type of a view's numbers."""
        return self._reader(view).dtype

    def settings(self, view: str) -> Provenance:
        """Return how a view was made."""
        self._reader(view)
        return dict(self._settings[view])

    def _reader(self, view: str) -> ShardReader:
        if view not in self.views:
            raise StoreError(
                f"{self.path}: has no view {view!r} (it has {', '.join(self.views)}); "
                "add it to the domain's views in suite.yaml and run dvc repro, or use the features without it: "
                "method.variant: no_augmentation in params.yaml"
            )
        return self._readers[view]

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
        for key, mine in self.backbone.items():
            if backbone.get(key) != mine:
                raise StoreError(
                    f"{self.path}: made with {key} = {short(mine)}, but {other} with "
                    f"{short(backbone.get(key))}; rows of two backbones cannot be compared: run dvc repro"
                )


def open_embeddings(path: Path) -> EmbeddingStore:
    """Open a store and check that it is whole: schema, metadata, shapes, and the size of every shard."""
    sealed = read_sealed(path, SCHEMA)
    names = sealed.attributes.get("views")
    if not names or not isinstance(names, list) or sorted(map(str, names)) != sorted(sealed.arrays):
        raise unusable(path, "its views are not its arrays")
    readers = sealed.open_each(shard_reader)
    shapes = {view: reader.shape for view, reader in readers.items()}
    if len(set(shapes.values())) != 1:
        raise unusable(path, f"views of different shapes {shapes}")
    rows, width = next(iter(shapes.values()))
    found = {view: metadata.get("attributes") for view, metadata in sealed.arrays.items()}
    settings = {view: value if isinstance(value, dict) else {} for view, value in found.items()}
    provenance = {**sealed.attributes, "schema": SCHEMA}
    views = tuple(map(str, names))
    return EmbeddingStore(path, provenance, views, rows, width, readers, settings)


def short(value: object) -> str:
    """Return a value of a store's attributes for a message, cut."""
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
