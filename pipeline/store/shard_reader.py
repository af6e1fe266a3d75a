"""Rows straight from a view's shard files: what zarr-python returns, in a fraction of its time.

zarr-python decodes a shard chunk by chunk through several copies: 4.5 times `np.load` for a view that lies in the page
cache. A chunk of ours is its rows and a CRC-32C, nothing else, so the rows can be read to where they belong and checked
there. Only arrays with exactly the layout that `embedding_store` writes are read; others are refused.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.floating]
Bytes = npt.NDArray[np.uint8]

THREADS = 2
CRC_BYTES = 4
MOST_ROWS = 2**24  # of a shard: a sane bound on what its index takes
ENTRY_BYTES = 16  # of a chunk in the shard's index: offset and length, uint64
_PLAIN = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


@dataclass(frozen=True)
class ShardReader:
    """An (n, d) array in shards of ``shard_rows`` rows, each of chunks of ``chunk_rows`` rows."""

    folder: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunk_rows: int
    shard_rows: int

    def read(self, start: int, stop: int) -> Rows:
        """Return rows ``start:stop``, 0 <= start <= stop <= n; a damaged chunk is a `ValueError`."""
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        flat = rows.view(np.uint8).reshape(len(rows), self._row_bytes)
        shards = range(start // self.shard_rows, -(-stop // self.shard_rows))
        # One thread reads while the other computes checksums.
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda shard: self._read_shard(shard, start, stop, flat), shards))
        return rows

    @property
    def _row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def _read_shard(self, shard: int, start: int, stop: int, rows: Bytes) -> None:
        """Fill the part of ``rows`` (stop - start, bytes of a row) that is in one shard."""
        path = self.folder / "c" / str(shard) / "0"
        before = shard * self.shard_rows
        first = (max(start, before) - before) // self.chunk_rows
        last = -(-(min(stop, before + self.shard_rows) - before) // self.chunk_rows)
        with path.open("rb", buffering=0) as file:
            offsets = self._offsets(file.fileno(), path)
            for chunk in range(first, last):
                self._read_chunk(
                    file.fileno(), offsets[chunk], before + chunk * self.chunk_rows, start, rows
                )

    def check_files(self) -> None:
        """Raise `ValueError` unless every shard is there and has exactly the size that its rows ask for."""
        rows, chunk_bytes = self.shape[0], self.chunk_rows * self._row_bytes + CRC_BYTES
        index = self.shard_rows // self.chunk_rows * ENTRY_BYTES + CRC_BYTES
        shards = -(-rows // self.shard_rows)
        there = sum(1 for file in (self.folder / "c").glob("*/*") if file.is_file())
        if there != shards:
            raise ValueError(f"a shard is missing: {there} files where {shards} shards are wanted")
        for shard in range(shards):
            inside = min(rows - shard * self.shard_rows, self.shard_rows)
            size = (self.folder / "c" / str(shard) / "0").stat().st_size
            if size != -(-inside // self.chunk_rows) * chunk_bytes + index:
                raise ValueError(f"{shard}/0 has not the size of its {inside} rows")

    def _offsets(self, file: int, path: Path) -> list[int]:
        """Return where the shard's chunks begin, from the index at its end."""
        size = self.shard_rows // self.chunk_rows * ENTRY_BYTES
        index = os.pread(file, size + CRC_BYTES, max(0, os.fstat(file).st_size - size - CRC_BYTES))
        if len(index) != size + CRC_BYTES or not _is_whole(index[:size], index[size:]):
            raise ValueError(f"{path.parent.name}/{path.name}: the shard's index is damaged")
        entries = np.frombuffer(index[:size], "<u8").reshape(-1, 2)
        return [int(offset) for offset in entries[:, 0]]

    def _read_chunk(self, file: int, offset: int, number: int, start: int, rows: Bytes) -> None:
        """Read the chunk that begins with row ``number`` to its place, or aside where ``rows`` ends within it."""
        begin, end = number - start, number - start + self.chunk_rows
        inside = begin >= 0 and end <= len(rows)
        chunk = rows[begin:end] if inside else np.empty((self.chunk_rows, rows.shape[1]), np.uint8)
        crc = bytearray(CRC_BYTES)
        expected = chunk.nbytes + CRC_BYTES
        # A chunk that was never written has the offset 2**64 - 1.
        whole = offset < 2**63 and os.preadv(file, [chunk.data, crc], offset) == expected
        if not whole or not _is_whole(chunk.reshape(-1), crc):
            raise ValueError(f"rows {number} to {number + self.chunk_rows}: the checksum is wrong")
        if not inside:
            there = slice(max(begin, 0), min(end, len(rows)))
            rows[there] = chunk[there.start - begin : there.stop - begin]


def _is_whole(content: bytes | Bytes, crc: bytes | bytearray) -> bool:
    return bool(google_crc32c.value(content) == int.from_bytes(crc, "little"))


def shard_reader(folder: Path, layout: dict[str, Any]) -> ShardReader | None:
    """Return the reader of the array in ``folder`` with zarr.json ``layout``; None where it is not the one we write."""
    try:
        (rows, width), (sharding,) = layout["shape"], layout["codecs"]
        shard_rows, _ = layout["chunk_grid"]["configuration"]["chunk_shape"]
        chunk_rows, _ = sharding["configuration"]["chunk_shape"]
        ours = _layout((rows, width), layout["data_type"], shard_rows, chunk_rows)
        if any(layout.get(key) != value for key, value in ours.items()):
            return None
        sizes = (rows, width, shard_rows, chunk_rows)
        possible = all(type(size) is int for size in sizes) and rows >= 0 and width >= 1
        if (
            not possible
            or not 1 <= chunk_rows <= shard_rows <= MOST_ROWS
            or shard_rows % chunk_rows
        ):
            return None
        dtype = np.dtype(layout["data_type"]).newbyteorder("<")
    except (ValueError, KeyError, TypeError):
        return None
    return ShardReader(folder, (rows, width), dtype, chunk_rows, shard_rows)


def _layout(
    shape: tuple[int, int], data_type: str, shard_rows: int, chunk_rows: int
) -> dict[str, Any]:
    """Return what decides, in an array's zarr.json, where its bytes are."""
    sharding = {
        "chunk_shape": [chunk_rows, shape[1]],
        "codecs": _PLAIN,
        "index_codecs": _PLAIN,
        "index_location": "end",
    }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "data_type": data_type if data_type in ("float16", "float32") else None,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [shard_rows, shape[1]]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "storage_transformers": [],
    }
