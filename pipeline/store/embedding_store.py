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
from pipeline.store.array_store import damaged
from pipeline.store.group_aside import group_aside
from pipeline.store.seal import read_sealed, remedy
from pipeline.store.shard_reader import ShardReader, shard_reader

SCHEMA = "referee-embeddings/2"
CHUNK_ROWS = 1024
SHARD_ROWS = 32_768
BACKBONE = ("model", "weights", "preprocessing", "precision")  # in a store's attributes

Provenance = dict[str, Any]
Rows = npt.NDArray[np.floating]


def digest_of(settings: Mapping[str, Any]) -> str:
    """Fingerprint of JSON-like settings: sha256 of their canonical form."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def rows_digest(image_digests: Iterable[str]) -> str:
    """Identity of a manifest's rows, in order: which image stands in which row of a store."""
    digest = hashlib.sha256()
    for number, image in enumerate(image_digests):
        digest.update(f"\n{image}".encode() if number else image.encode())
    return digest.hexdigest()


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
    attributes = {"schema": SCHEMA, "views": list(views), **provenance}
    with group_aside(path, attributes) as (_, group):
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
    provenance: Provenance
    views: tuple[str, ...]
    rows: int
    width: int
    readers: Mapping[str, ShardReader]
    made_with: Mapping[str, Provenance]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a path, which is opened there."""
        return open_embeddings, (self.path.absolute(),)

    def read(self, view: str, start: int = 0, stop: int | None = None) -> Rows:
        """Return rows ``start:stop`` (n, d) of a view as stored; a damaged chunk is a `StoreError`."""
        reader = self._reader(view)
        first, last, _ = slice(start, stop).indices(self.rows)
        try:
            return reader.read(first, max(first, last))
        except (ValueError, OSError) as error:
            raise damaged(self.path, view, error) from None

    def dtype(self, view: str) -> np.dtype[Any]:
        """Return the type of a view's numbers."""
        return self._reader(view).dtype

    def row_bytes(self, view: str) -> int:
        """Return the size of a row."""
        return int(self.width * self.dtype(view).itemsize)

    def blocks(self, view: str, size: int = SHARD_ROWS) -> Iterator[Rows]:
        """Yield the rows of a view in order, ``size`` at a time: contiguous reads, bounded memory."""
        for start in range(0, self.rows, size):
            yield self.read(view, start, start + size)

    def settings(self, view: str) -> Provenance:
        """Return how a view was made."""
        self._reader(view)
        return dict(self.made_with[view])

    def _reader(self, view: str) -> ShardReader:
        if view not in self.views:
            raise StoreError(
                f"{self.path}: has no view {view!r} (it has {', '.join(self.views)}); "
                f"add it to the domain's views in params.yaml and run dvc repro"
            )
        return self.readers[view]

    @property
    def backbone(self) -> Provenance:
        """What made the rows; two domains can be compared where it is the same. Not an imported file's own name."""
        made = {key: self.provenance.get(key) for key in BACKBONE}
        model = made["model"]
        if isinstance(model, dict):
            made["model"] = {key: value for key, value in model.items() if key != "file"}
        return made

    def require(self, expected: Mapping[str, Any]) -> None:
        """Raise a `StoreError` naming both sides where provenance differs from ``expected``."""
        for key, wanted in expected.items():
            found = self.provenance.get(key)
            if found != wanted:
                raise StoreError(
                    f"{self.path}: made with {key} = {_short(found)}, but {_short(wanted)} is wanted; "
                    f"{remedy(self.path)}"
                )

    def require_backbone(self, of_other: Mapping[str, Any], other: Path) -> None:
        """Raise a `StoreError` naming both sides unless the rows come from the backbone that ``other`` rests on."""
        for key, mine in self.backbone.items():
            if of_other.get(key) != mine:
                raise StoreError(
                    f"{self.path}: made with {key} = {_short(mine)}, but {other} with {_short(of_other.get(key))}; "
                    "rows of two backbones cannot be compared: run dvc repro"
                )


def open_embeddings(path: Path) -> EmbeddingStore:
    """Open a store and check that it is whole: schema, metadata, equal shapes, every shard there and of its size."""
    provenance, metadata = read_sealed(path, SCHEMA)
    views = provenance.get("views")
    names = views if isinstance(views, list) and all(type(v) is str for v in views) else []
    if not names or sorted(names) != sorted(metadata):
        raise StoreError(f"{path}: its views are not its arrays; {remedy(path)}")
    readers = {view: _reader(path, view, metadata[view]) for view in names}
    shapes = {view: reader.shape for view, reader in readers.items()}
    if len(set(shapes.values())) != 1:
        raise StoreError(f"{path}: views of different shapes {shapes}; {remedy(path)}")
    rows, width = shapes[names[0]]
    made_with = {view: _settings(metadata[view]) for view in names}
    provenance["schema"] = SCHEMA
    return EmbeddingStore(path, provenance, tuple(names), rows, width, readers, made_with)


def _settings(metadata: dict[str, Any]) -> Provenance:
    found = metadata.get("attributes")
    return dict(found) if isinstance(found, dict) else {}


def _reader(path: Path, view: str, metadata: dict[str, Any]) -> ShardReader:
    reader = shard_reader(path / view, metadata)
    if reader is None:
        raise StoreError(f"{path}/{view}: another layout than this version writes; {remedy(path)}")
    try:
        reader.check_files()
    except (ValueError, OSError) as error:
        raise damaged(path, view, error) from None
    return reader


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
