"""The one layout in which array stores are written: one chunk per leading index, plain numbers and their CRC-32C.

Metadata is believed only where the files bear it out: an array of another layout, or whose files have not exactly the
size that its shape asks for, is refused before anything is allocated or read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

CRC_BYTES = 4
TYPES = ("bool", "int32", "int64", "float16", "float32", "float64")
MOST_AXES = 8


@dataclass(frozen=True)
class ArrayLayout:
    """An array in ``folder``; along an axis a chunk has one index or all of them."""

    folder: Path
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, index: tuple[int, ...] = ()) -> npt.NDArray[Any]:
        """Return what the array holds at ``index`` of its first axes; a damaged chunk is a `ValueError`."""
        for i, (place, size) in enumerate(zip(index, self.shape, strict=False)):
            if not 0 <= place < size or self.chunk[i] != 1:
                raise ValueError(f"it has no index {list(index)} (shape {list(self.shape)})")
        values = np.empty(self.shape[len(index) :], self.dtype)
        rest = range(len(index), len(self.shape))
        for cell in self._cells(index):
            inside = tuple(cell[i] if self.chunk[i] == 1 else slice(None) for i in rest)
            part = values[inside]
            if part.flags.c_contiguous and part.ndim:  # read to where it belongs: no second copy
                self._read_chunk(cell, part)
            else:
                aside = np.empty(part.shape, self.dtype)
                self._read_chunk(cell, aside)
                values[inside] = aside
        return values

    def check_files(self) -> None:
        """Raise `ValueError` unless every chunk has its file, of exactly the right size."""
        count = math.prod(n // c for n, c in zip(self.shape, self.chunk, strict=True))
        there = sum(1 for file in (self.folder / "c").rglob("*") if file.is_file())
        if there != count:
            raise ValueError(f"a chunk is missing: {there} files where {count} chunks are wanted")
        for cell in self._cells(()):
            file = self._file(cell)
            if not file.is_file():
                raise ValueError(f"a chunk is missing: {file.relative_to(self.folder)}")
            if file.stat().st_size != self._chunk_bytes + CRC_BYTES:
                raise ValueError(f"{file.relative_to(self.folder)} has not the size of a chunk")

    @property
    def _chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize

    def _cells(self, index: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the chunks' places in the grid, those at ``index`` alone."""
        grid = [n // c for n, c in zip(self.shape, self.chunk, strict=True)]
        return product(*((i,) for i in index), *(range(n) for n in grid[len(index) :]))

    def _file(self, cell: tuple[int, ...]) -> Path:
        return self.folder.joinpath("c", *map(str, cell))

    def _read_chunk(self, cell: tuple[int, ...], into: npt.NDArray[Any]) -> None:
        numbers, crc = into.reshape(-1).view(np.uint8), bytearray(CRC_BYTES)
        with self._file(cell).open("rb") as file:
            whole = file.readinto(numbers.data) == len(numbers) and file.readinto(crc) == CRC_BYTES
        if not whole or google_crc32c.value(numbers) != int.from_bytes(crc, "little"):
            raise ValueError(f"chunk {'/'.join(map(str, cell))}: the checksum is wrong")


def array_layout(folder: Path, metadata: dict[str, Any]) -> ArrayLayout:
    """Return the layout that an array's zarr.json states, borne out by its files; else raise `ValueError`."""
    try:
        shape, grid = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
        ours = _expected(grid, metadata["data_type"])
    except (KeyError, TypeError):
        raise ValueError("not the metadata of an array") from None
    if any(metadata.get(key) != value for key, value in ours.items()):
        raise ValueError("another layout than this version writes")
    if not (_are_sizes(shape) and _are_sizes(grid) and len(shape) == len(grid) <= MOST_AXES):
        raise ValueError(f"impossible shape {str(shape)[:60]} in chunks of {str(grid)[:60]}")
    if any(c not in (1, n) for n, c in zip(shape, grid, strict=True)):
        raise ValueError("another layout than this version writes")
    dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
    layout = ArrayLayout(folder, tuple(shape), tuple(grid), dtype)
    layout.check_files()
    return layout


def _are_sizes(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and n >= 1 for n in numbers)


def _expected(grid: object, data_type: object) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": "bytes"}
    if data_type != "bool":
        plain["configuration"] = {"endian": "little"}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "data_type": data_type if data_type in TYPES else None,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [plain, {"name": "crc32c"}],
        "storage_transformers": [],
    }
