"""Named arrays with attributes in one small Zarr group: prompts, source models, pseudo-labels, target models.

Like the embedding stores they hold nothing of the machine that made them, carry checksums, and appear whole or not
at all. Each array is one chunk per first index, so that one seed is read without the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

from pipeline.errors import StoreError, pass_on_machine_error
from pipeline.store.array_layout import ArrayLayout, array_layout
from pipeline.store.group_aside import group_aside
from pipeline.store.seal import read_sealed, remedy

__all__ = ["ArrayStore", "ArrayWriter", "open_arrays", "remedy", "write_arrays", "writing"]

Value = TypeVar("Value")


@dataclass(frozen=True)
class ArrayWriter:
    """A group under way; parts may be written from several threads, each its own chunks."""

    path: Path
    group: zarr.Group

    def reserve(
        self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike, *, leading: int = 1
    ) -> zarr.Array[Any]:
        """Make an array with one chunk per index of its ``leading`` axes; fill it part by part."""
        return self.group.create_array(
            name,
            shape=shape,
            dtype=dtype,
            chunks=(1,) * leading + shape[leading:],
            shards=None,
            compressors=Crc32cCodec(),
            config={"write_empty_chunks": True},  # a chunk that is absent is then always a loss
        )

    def write(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write whole arrays."""
        for name, values in arrays.items():
            self.reserve(name, values.shape, values.dtype)[...] = values

    def describe(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        self.group.attrs.update(attributes)


@contextmanager
def writing(path: Path, schema: str) -> Iterator[ArrayWriter]:
    """Write a group aside; it takes its place when all went well."""
    with group_aside(path, {"schema": schema}) as (aside, group):
        yield ArrayWriter(aside, group)


def write_arrays(
    path: Path, schema: str, arrays: Mapping[str, npt.NDArray[Any]], attributes: Mapping[str, Any]
) -> None:
    """Write a whole group aside and rename it into place."""
    with writing(path, schema) as store:
        store.describe(attributes)
        store.write(arrays)


@dataclass(frozen=True)
class ArrayStore:
    """A group opened for reading: its metadata was checked, its numbers are when they are read."""

    path: Path
    schema: str
    attributes: dict[str, Any]
    arrays: Mapping[str, ArrayLayout]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a path, which is opened there."""
        return open_arrays, (self.path.absolute(), self.schema)

    def read(self, name: str, index: int | tuple[int, ...] | None = None) -> npt.NDArray[Any]:
        """Return a whole array, or what it holds at ``index`` of its first axis or axes."""
        if name not in self.arrays:
            raise StoreError(f"{self.path}: has no array {name!r}; {remedy(self.path)}")
        where = () if index is None else index if isinstance(index, tuple) else (index,)
        try:
            return self.arrays[name].read(where)
        except (ValueError, OSError) as error:
            raise damaged(self.path, name, error) from None

    def expect(self, name: str, values: npt.NDArray[Any], *shape: int | None) -> None:
        """Raise a `StoreError` unless ``values``, read from ``name``, have this shape; None: any size."""
        fits = values.ndim == len(shape) and all(
            want in (None, has) for has, want in zip(values.shape, shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise StoreError(
                f"{self.path}/{name}: shape {values.shape}, ({wanted}) is wanted; {remedy(self.path)}"
            )

    def attribute(self, name: str, kind: type[Value], *, of: type | None = None) -> Value:
        """Return an attribute of the type ``kind``, a list's items being ``of`` one type."""
        value = self.attributes.get(name)
        right = isinstance(value, kind) and (
            of is None or (isinstance(value, list) and all(type(item) is of for item in value))
        )
        if not right:
            raise StoreError(f"{self.path}: no attribute {name!r} as wanted; {remedy(self.path)}")
        return value  # type: ignore[return-value]


def open_arrays(path: Path, schema: str) -> ArrayStore:
    """Open a group, check that it is of the kind ``schema`` and that its files are what its metadata says."""
    attributes, metadata = read_sealed(path, schema)
    arrays = {}
    for name, of_array in metadata.items():
        try:
            arrays[name] = array_layout(path / name, of_array)
        except (ValueError, OSError) as error:
            raise damaged(path, name, error) from None
    return ArrayStore(path, schema, attributes, arrays)


def damaged(path: Path, name: str, error: Exception) -> StoreError:
    """Return the error of an array that cannot be read; what the machine lacks is raised as it is."""
    pass_on_machine_error(error)
    reason = " ".join(str(error).split())
    return StoreError(f"{path}/{name}: damaged ({reason}); {remedy(path)}")
