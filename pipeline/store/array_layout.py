"""Read and write arrays in Zarr format 3, byte for byte, with a CRC-32C per chunk.

Arrays of models have one chunk per leading index (`ArrayLayout`), embeddings have shards of rows (`ShardedRows`).
Embeddings are written by zarr-python (`embedding_store`). Everything else is done here: importing zarr-python takes a
quarter of a second, which every stage would pay, and it copies rows several times, which makes reading about ten times
slower (docs/performance.md). Tests compare the files and rows with zarr-python's.

Metadata is accepted only if this module would have written it. An array with another layout, or with files whose size
does not match its shape, is refused before anything is allocated. Errors are `ValueError`s; `array_store` turns them
into messages with a remedy.
"""

import json
import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix

ROOT = "zarr.json"
CRC_BYTES = 4
DATA_TYPES = ("bool", "int32", "int64", "float16", "float32", "float64")
MAX_AXES = 8
MAX_SHARD_ROWS = 2**24  # bounds the size of a shard's index
ENTRY_BYTES = 16  # per chunk in a shard's index: offset and length, uint64
THREADS = 2  # one reads while the other verifies checksums
WRONG_LAYOUT = "another layout than this version writes"
CRC = {"name": "crc32c"}
LITTLE_ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}

Metadata = dict[str, Any]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ArrayLayout:
    """An array in ``folder`` with one chunk per index of its ``leading`` axes."""

    folder: Path
    shape: tuple[int, ...]
    leading: int
    dtype: np.dtype[Any]

    @property
    def metadata(self) -> Metadata:
        """The content of the array's zarr.json."""
        chunk = [1] * self.leading + list(self.shape[self.leading :])
        codecs = [{"name": "bytes"} if self.dtype == np.bool_ else LITTLE_ENDIAN, CRC]
        return _metadata(self, chunk, codecs, self.dtype.type(0).item())

    def create(self) -> None:
        """Create an array without chunks by writing its zarr.json."""
        self.folder.mkdir()
        (self.folder / ROOT).write_text(json.dumps(self.metadata, indent=2), encoding="utf-8")

    def read(self, index: tuple[int, ...] = ()) -> npt.NDArray[Any]:
        """Return the subarray at ``index`` of the first axes."""
        in_range = all(0 <= i < size for i, size in zip(index, self.shape, strict=False))
        if len(index) > self.leading or not in_range:
            raise ValueError(f"it has no index {list(index)} (shape {list(self.shape)})")
        values = np.empty(self.shape[len(index) :], self.dtype)
        chunks = values.reshape(-1, math.prod(self.shape[self.leading :])).view(np.uint8)
        for cell, chunk in zip(self._cells(index), chunks, strict=True):
            crc = bytearray(CRC_BYTES)
            with (self.folder / "c" / self._file(cell)).open("rb") as file:
                complete = file.readinto(chunk.data) == len(chunk) and file.readinto(crc) == CRC_BYTES
            if not complete or not crc_matches(chunk, crc):
                raise ValueError(f"chunk {'/'.join(map(str, cell))}: the checksum is wrong")
        return values

    def write(self, cell: tuple[int, ...], values: npt.NDArray[Any]) -> None:
        """Write the chunk at index ``cell`` of the leading axes; safe in any thread or process."""
        file = self.folder / "c" / self._file(cell)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as content:
            content.writelines(_with_crc(np.asarray(values, self.dtype)))

    def file_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the files below ``c`` and their sizes."""
        size = math.prod(self.shape[self.leading :]) * self.dtype.itemsize + CRC_BYTES
        return ((self._file(cell), size) for cell in self._cells(()))

    def _cells(self, index: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the indices of the leading axes that begin with ``index``, in order."""
        rest = self.shape[len(index) : self.leading]
        return ((*index, *tail) for tail in product(*map(range, rest)))

    def _file(self, cell: tuple[int, ...]) -> str:
        return "/".join(map(str, (*cell, *(0,) * (len(self.shape) - self.leading))))


@dataclass(frozen=True)
class ShardedRows:
    """An (n, d) array of floats in shards of ``shard_rows`` rows, each divided into chunks of ``chunk_rows`` rows."""

    folder: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunk_rows: int
    shard_rows: int
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def metadata(self) -> Metadata:
        """The content of the array's zarr.json."""
        width, codecs = self.shape[1], [LITTLE_ENDIAN, CRC]
        chunk = [self.chunk_rows, width]
        inner = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": codecs, "index_location": "end"}
        sharding = [{"name": "sharding_indexed", "configuration": inner}]
        return {**_metadata(self, [self.shard_rows, width], sharding, "NaN"), "attributes": self.attributes}

    def _index(self, shard: int) -> bytes:
        """Return the index at the end of a shard: offset and length of each chunk, 2**64 - 1 for absent chunks."""
        index = np.full((self._shard_chunks, 2), 2**64 - 1, "<u8")
        chunks = -(-min(self.shape[0] - shard * self.shard_rows, self.shard_rows) // self.chunk_rows)
        index[:chunks, 0] = np.arange(chunks) * self._chunk_bytes
        index[:chunks, 1] = self._chunk_bytes
        return b"".join(_with_crc(index))

    def read(self, start: int, stop: int) -> Matrix:
        """Return rows ``start:stop``, 0 <= start <= stop <= n, read in place (no copies) and verified."""
        first, last = start // self.chunk_rows, -(-stop // self.chunk_rows)
        rows = np.empty(((last - first) * self.chunk_rows, self.shape[1]), self.dtype)
        chunks = rows.view(np.uint8).reshape(last - first, self._chunk_bytes - CRC_BYTES)
        shards = range(first // self._shard_chunks, -(-last // self._shard_chunks))
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda shard: self._read_shard(shard, first, chunks), shards))
        selected = rows[start - first * self.chunk_rows : stop - first * self.chunk_rows]
        # a view of a few rows would keep whole chunks in memory
        return selected if 2 * len(selected) > len(rows) else selected.copy()

    def _read_shard(self, shard: int, first: int, chunks: Bytes) -> None:
        """Read the part of ``chunks`` that lies in one shard; ``first`` is the array's number of ``chunks[0]``."""
        offset, index = shard * self._shard_chunks, self._index(shard)
        with self._file(shard).open("rb", buffering=0) as content:
            file = content.fileno()
            if os.pread(file, len(index), max(0, os.fstat(file).st_size - len(index))) != index:
                raise ValueError(f"{shard}/0: the shard's index is damaged")
            for number in range(max(first, offset), min(first + len(chunks), offset + self._shard_chunks)):
                chunk, crc = chunks[number - first], bytearray(CRC_BYTES)
                count = os.preadv(file, [chunk.data, crc], (number - offset) * self._chunk_bytes)
                if count != self._chunk_bytes or not crc_matches(chunk, crc):
                    raise ValueError(
                        f"the {self.chunk_rows} rows from {number * self.chunk_rows}: the checksum is wrong"
                    )

    def file_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the files below ``c`` and their sizes."""
        index_bytes = self._shard_chunks * ENTRY_BYTES + CRC_BYTES
        for shard in range(-(-self.shape[0] // self.shard_rows)):
            rows = min(self.shape[0] - shard * self.shard_rows, self.shard_rows)
            yield f"{shard}/0", -(-rows // self.chunk_rows) * self._chunk_bytes + index_bytes

    @property
    def _chunk_bytes(self) -> int:
        return self.chunk_rows * self.shape[1] * self.dtype.itemsize + CRC_BYTES

    @property
    def _shard_chunks(self) -> int:
        return self.shard_rows // self.chunk_rows

    def _file(self, shard: int) -> Path:
        return self.folder / "c" / str(shard) / "0"


Layout = ArrayLayout | ShardedRows


def array_layout(folder: Path, metadata: Metadata) -> ArrayLayout:
    """Return the layout described by a zarr.json with one chunk per leading index, after checking its files."""
    try:
        shape, grid = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
        dtype = _dtype(metadata)
    except (KeyError, TypeError):
        raise ValueError("not the metadata of an array") from None
    if not (_are_sizes(shape) and _are_sizes(grid) and len(shape) == len(grid) <= MAX_AXES):
        raise ValueError(f"impossible shape {str(shape)[:60]} in chunks of {str(grid)[:60]}")
    layout = ArrayLayout(folder, tuple(shape), len(list(takewhile(lambda size: size == 1, grid))), dtype)
    _require_consistent(layout, metadata, math.prod(shape[: layout.leading]))
    return layout


def sharded_rows(folder: Path, metadata: Metadata) -> ShardedRows:
    """Return the layout described by a zarr.json with shards of rows, after checking its files."""
    try:
        (rows, width), (sharding,), attributes = metadata["shape"], metadata["codecs"], metadata["attributes"]
        shard_rows, _ = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        chunk_rows, _ = sharding["configuration"]["chunk_shape"]
        dtype = _dtype(metadata)
    except (ValueError, KeyError, TypeError):
        raise ValueError(WRONG_LAYOUT) from None
    if type(rows) is not int or rows < 0 or not _are_sizes([width, shard_rows, chunk_rows]):
        raise ValueError(WRONG_LAYOUT)
    if shard_rows > MAX_SHARD_ROWS or shard_rows % chunk_rows or dtype.kind != "f" or not isinstance(attributes, dict):
        raise ValueError(WRONG_LAYOUT)
    layout = ShardedRows(folder, (rows, width), dtype, chunk_rows, shard_rows, attributes)
    _require_consistent(layout, metadata, -(-rows // shard_rows))
    return layout


def crc_matches(content: bytes | Bytes, crc: bytes | bytearray) -> bool:
    """Return whether ``crc``, as stored by Zarr, is the CRC-32C of ``content``."""
    return bool(google_crc32c.value(content) == int.from_bytes(crc, "little"))


def _with_crc(values: npt.NDArray[Any]) -> tuple[memoryview, bytes]:
    """Return an array's bytes, without copying, and their checksum."""
    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return content.data, google_crc32c.value(content).to_bytes(CRC_BYTES, "little")


def _metadata(array: "Layout", chunk: list[int], codecs: list[Any], fill_value: object) -> Metadata:
    return {
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": codecs,
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _dtype(metadata: Metadata) -> np.dtype[Any]:
    if metadata["data_type"] not in DATA_TYPES:
        raise ValueError(WRONG_LAYOUT)
    return np.dtype(metadata["data_type"]).newbyteorder("<")


def _are_sizes(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and n >= 1 for n in numbers)


def _require_consistent(layout: Layout, metadata: Metadata, files: int) -> None:
    """Raise `ValueError` unless the metadata is the layout's and all its ``files`` exist with the right size."""
    expected = {**layout.metadata, "fill_value": metadata.get("fill_value")}  # unused, because all chunks exist
    if any(metadata.get(key) != value for key, value in expected.items()):
        raise ValueError(WRONG_LAYOUT)
    count = sum(1 for file in (layout.folder / "c").rglob("*") if file.is_file())
    if count != files:
        raise ValueError(f"it has {count} files instead of {files}")
    for name, size in layout.file_sizes():
        if (layout.folder / "c" / name).stat().st_size != size:
            raise ValueError(f"{name} does not have {size} bytes")
