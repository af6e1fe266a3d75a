"""The layout in which array stores are written: one chunk per leading index, numbers and CRC-32C.

It is Zarr's format 3 to the byte, written here because importing zarr-python takes a quarter of a second, which every
stage would pay; tests compare with what zarr-python writes and reads.

Metadata is believed only where the files bear it out: an array of another layout, or whose files
do not have exactly the size that its shape asks for, is refused before anything is allocated.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

CRC_BYTES = 4
DATA_TYPES = ("bool", "int32", "int64", "float16", "float32", "float64")
MAX_AXES = 8
NOT_OURS = "another layout than this version writes"
CRC = {"name": "crc32c"}
LITTLE_ENDIAN = {"name": "bytes", "configuration": {"endian": "little"}}


@dataclass(frozen=True)
class ArrayLayout:
    """An array in ``folder`` with one chunk for each index of its ``leading`` axes."""

    folder: Path
    shape: tuple[int, ...]
    leading: int
    dtype: np.dtype[Any]

    def read(self, index: tuple[int, ...] = ()) -> npt.NDArray[Any]:
        """Return the array at ``index`` of its first axes; a damaged chunk is a `ValueError`."""
        inside = all(0 <= i < size for i, size in zip(index, self.shape, strict=False))
        if len(index) > self.leading or not inside:
            raise ValueError(f"it has no index {list(index)} (shape {list(self.shape)})")
        values = np.empty(self.shape[len(index) :], self.dtype)
        chunks = values.reshape(-1, math.prod(self.shape[self.leading :])).view(np.uint8)
        for cell, chunk in zip(self._cells(index), chunks, strict=True):
            self._read_chunk(cell, chunk)
        return values

    def write(self, cell: tuple[int, ...], values: npt.NDArray[Any]) -> None:
        """Write the chunk at ``cell`` of the leading axes, in any thread or process."""
        if values.shape != self.shape[self.leading :] or len(cell) != self.leading:
            raise ValueError(f"{values.shape} at {cell} is no chunk of {self.shape}")
        numbers = np.ascontiguousarray(values, self.dtype).reshape(-1).view(np.uint8)
        file = self._file(cell)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as content:
            content.write(numbers.data)
            content.write(google_crc32c.value(numbers).to_bytes(CRC_BYTES, "little"))

    def check_files(self) -> None:
        """Raise `ValueError` unless every chunk has its file, of exactly the right size."""
        expected = math.prod(self.shape[: self.leading])
        found = sum(1 for file in (self.folder / "c").rglob("*") if file.is_file())
        if found != expected:
            raise ValueError(f"a chunk is missing: {found} files for {expected} chunks")
        size = math.prod(self.shape[self.leading :]) * self.dtype.itemsize + CRC_BYTES
        for cell in self._cells(()):
            if self._file(cell).stat().st_size != size:
                raise ValueError(f"chunk {'/'.join(map(str, cell))} does not have {size} bytes")

    def _cells(self, index: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the indices of the leading axes that begin with ``index``, in order."""
        rest = self.shape[len(index) : self.leading]
        return ((*index, *more) for more in product(*map(range, rest)))

    def _file(self, cell: tuple[int, ...]) -> Path:
        zeros = (0,) * (len(self.shape) - self.leading)
        return self.folder.joinpath("c", *map(str, (*cell, *zeros)))

    def _read_chunk(self, cell: tuple[int, ...], into: npt.NDArray[np.uint8]) -> None:
        crc = bytearray(CRC_BYTES)
        with self._file(cell).open("rb") as file:
            whole = file.readinto(into.data) == len(into) and file.readinto(crc) == CRC_BYTES
        if not whole or not crc_matches(into, crc):
            raise ValueError(f"chunk {'/'.join(map(str, cell))}: the checksum is wrong")


def new_array(folder: Path, shape: tuple[int, ...], dtype: npt.DTypeLike, leading: int) -> ArrayLayout:
    """Write the zarr.json of an array with one chunk for each index of its ``leading`` axes, to be filled."""
    kind = np.dtype(dtype)
    metadata = {
        "shape": list(shape),
        "data_type": kind.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * leading + list(shape[leading:])}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": kind.type(0).item(),
        "codecs": [{"name": "bytes"} if kind == np.bool_ else LITTLE_ENDIAN, CRC],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    folder.mkdir()
    (folder / "zarr.json").write_text(json.dumps(metadata, indent=2), encoding="utf-8")
    return ArrayLayout(folder, shape, leading, kind.newbyteorder("<"))


def array_layout(folder: Path, metadata: dict[str, Any]) -> ArrayLayout:
    """Return the layout that an array's zarr.json states, if its files bear it out.

    Raises `ValueError` for any other layout and for files that do not fit.
    """
    layout = stated_layout(folder, metadata)
    layout.check_files()
    return layout


def stated_layout(folder: Path, metadata: dict[str, Any]) -> ArrayLayout:
    """Return the layout that an array's zarr.json states, whatever files there are."""
    try:
        shape, grid = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
        data_type = metadata["data_type"]
    except (KeyError, TypeError):
        raise ValueError("not the metadata of an array") from None
    numbers = {"name": "bytes"} if data_type == "bool" else LITTLE_ENDIAN
    require_metadata(metadata, DATA_TYPES, grid, [numbers, CRC])
    if not (_are_sizes(shape) and _are_sizes(grid) and len(shape) == len(grid) <= MAX_AXES):
        raise ValueError(f"impossible shape {str(shape)[:60]} in chunks of {str(grid)[:60]}")
    leading = len(list(takewhile(lambda size: size == 1, grid)))
    if grid[leading:] != shape[leading:]:
        raise ValueError(NOT_OURS)
    return ArrayLayout(folder, tuple(shape), leading, np.dtype(data_type).newbyteorder("<"))


def _are_sizes(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and n >= 1 for n in numbers)


def require_metadata(metadata: dict[str, Any], data_types: tuple[str, ...], grid: object, codecs: object) -> None:
    """Raise `ValueError` unless all that decides where an array's bytes are is as we write it."""
    expected = {
        "zarr_format": 3,
        "node_type": "array",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": codecs,
        "storage_transformers": [],
    }
    if metadata.get("data_type") not in data_types or any(
        metadata.get(key) != value for key, value in expected.items()
    ):
        raise ValueError(NOT_OURS)


def crc_matches(content: bytes | npt.NDArray[np.uint8], crc: bytes | bytearray) -> bool:
    """Tell whether ``crc``, as Zarr stores it, is the CRC-32C of ``content``."""
    return bool(google_crc32c.value(content) == int.from_bytes(crc, "little"))
