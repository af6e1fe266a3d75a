"""Embeddings of a domain's images by one model: a Zarr v3 group with one (n, d) array per view.

Rows are in manifest order. Shards of 32,768 rows keep the number of files small (what makes DVC slow is files, not
bytes); inner chunks of 1,024 rows carry a CRC, so a flipped bit is an error on reading and never a number. Nothing in a
store depends on when, where or by whom it was made: the same input gives the same bytes, so teammates' hashes agree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

from pipeline.errors import StoreError
from pipeline.store.array_store import remedy
from pipeline.store.shard_reader import shard_reader
from pipeline.write_aside import write_aside

SCHEMA = "referee-embeddings/1"
CHUNK_ROWS = 1024
SHARD_ROWS = 32_768

Provenance = dict[str, Any]
Rows = npt.NDArray[np.floating]


def digest_of(settings: Mapping[str, Any]) -> str:
    """Fingerprint of JSON-like settings: sha256 of their canonical form."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def rows_digest(image_digests: Iterable[str]) -> str:
    """Identity of a manifest's rows, in order: which image stands in which row of a store."""
    return hashlib.sha256("\n".join(image_digests).encode()).hexdigest()


@dataclass(frozen=True)
class ViewRows:
    """What to write as one view: its shape, its settings, and its rows shard by shard, in order."""

    rows: int
    width: int
    dtype: str
    settings: Provenance
    shards: Iterable[Rows]


def write_embeddings(path: Path, views: Mapping[str, ViewRows], provenance: Provenance) -> None:
    """Write a whole store aside and rename it into place; ``path`` never holds half a store."""
    with write_aside(path) as aside:
        group = zarr.create_group(
            aside, zarr_format=3, attributes={"schema": SCHEMA, "views": list(views), **provenance}
        )
        for name, view in views.items():
            array = group.create_array(
                name,
                shape=(view.rows, view.width),
                dtype=view.dtype,
                chunks=(CHUNK_ROWS, view.width),
                shards=(SHARD_ROWS, view.width),
                compressors=Crc32cCodec(),  # embeddings compress 1.09 times: not worth the time
                fill_value=float(
                    "nan"
                ),  # a row that was never written must not look like one that was
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
                f"({int(bad.sum())} such rows); if float16 overflows, set the model's stored_as: float32"
            )
        array[start : start + len(rows)] = rows
        start += len(rows)
    if start != view.rows:
        raise StoreError(
            f"view {name!r}: {start} rows were produced where {view.rows} were announced"
        )


@dataclass(frozen=True)
class EmbeddingStore:
    """A store opened for reading. ``provenance`` are its attributes; ``views`` the names of its arrays."""

    path: Path
    group: zarr.Group
    provenance: Provenance
    views: tuple[str, ...]
    rows: int
    width: int

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a path, which is opened there."""
        return open_embeddings, (self.path.absolute(),)

    def read(self, view: str, start: int = 0, stop: int | None = None) -> Rows:
        """Return rows ``start:stop`` (n, d) of a view as stored; a damaged chunk is a `StoreError`."""
        array = self._array(view)
        first, last, _ = slice(start, stop).indices(self.rows)
        try:
            if reader := shard_reader(self.path / view):
                return reader.read(first, max(first, last))
            return np.asarray(array[first:last])
        except (ValueError, OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(
                f"{self.path}/{view}: damaged ({reason}); {remedy(self.path)}"
            ) from None

    def row_bytes(self, view: str) -> int:
        """Return the size of a row."""
        return int(self.width * self._array(view).dtype.itemsize)

    def blocks(self, view: str, size: int = SHARD_ROWS) -> Iterator[Rows]:
        """Yield the rows of a view in order, ``size`` at a time: contiguous reads, bounded memory."""
        for start in range(0, self.rows, size):
            yield self.read(view, start, start + size)

    def settings(self, view: str) -> Provenance:
        """Return how a view was made."""
        return dict(self._array(view).attrs)

    def _array(self, view: str) -> zarr.Array[Any]:
        if view not in self.views:
            raise StoreError(
                f"{self.path}: has no view {view!r} (it has {', '.join(self.views)}); "
                f"add it to the domain's views in params.yaml and run dvc repro"
            )
        array = self.group[view]
        if not isinstance(array, zarr.Array):
            raise StoreError(f"{self.path}/{view}: not an array; {remedy(self.path)}")
        return array

    def require(self, expected: Mapping[str, Any]) -> None:
        """Raise a `StoreError` naming both sides where provenance differs from ``expected``."""
        for key, wanted in expected.items():
            found = self.provenance.get(key)
            if found != wanted:
                raise StoreError(
                    f"{self.path}: made with {key} = {_short(found)}, but {_short(wanted)} is wanted; "
                    f"{remedy(self.path)}"
                )


def open_embeddings(path: Path) -> EmbeddingStore:
    """Open a store and check that it is whole: schema, arrays, equal rows, every shard in place."""
    if not path.is_dir():
        raise StoreError(f"{path}: no such store; run dvc repro or dvc pull")
    try:
        group = zarr.open_group(path, mode="r", zarr_format=3)
        provenance: Provenance = dict(group.attrs)
    except (ValueError, KeyError, TypeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path}: not a readable Zarr store ({reason}); {remedy(path)}") from None
    if provenance.get("schema") != SCHEMA:
        raise StoreError(
            f"{path}: schema {provenance.get('schema')!r}, this version reads {SCHEMA!r}; {remedy(path)}"
        )
    views = tuple(str(view) for view in provenance["views"])
    shapes = {view: _whole_shape(path, group, view) for view in views}
    if len(set(shapes.values())) != 1:
        raise StoreError(f"{path}: views of different shapes {shapes}; {remedy(path)}")
    rows, width = shapes[views[0]]
    return EmbeddingStore(path, group, provenance, views, rows, width)


def _whole_shape(path: Path, group: zarr.Group, view: str) -> tuple[int, int]:
    array = group.get(view)
    if not isinstance(array, zarr.Array) or array.ndim != 2:
        raise StoreError(f"{path}: view {view!r} is missing; {remedy(path)}")
    rows, width = array.shape
    for shard in range(-(-rows // SHARD_ROWS)):
        file = path / view / "c" / str(shard) / "0"
        if not file.is_file():
            raise StoreError(f"{file}: a shard is missing; {remedy(path)}")
    return rows, width


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
