"""Named arrays with attributes in one small Zarr group: prompts, source models, pseudo-labels, target models.

Like the embedding stores they hold nothing of the machine that made them, carry checksums, and appear whole or not
at all. Each array is one chunk per first index, so that one seed is read without the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

from pipeline.errors import StoreError
from pipeline.write_aside import write_aside


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
    with write_aside(path) as aside:
        group = zarr.create_group(aside, zarr_format=3, attributes={"schema": schema})
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
    """A group opened for reading."""

    path: Path
    schema: str
    attributes: dict[str, Any]
    group: zarr.Group

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a path, which is opened there."""
        return open_arrays, (self.path.absolute(), self.schema)

    def read(self, name: str, index: int | tuple[int, ...] | None = None) -> npt.NDArray[Any]:
        """Return a whole array, or what it holds at ``index`` of its first axis or axes."""
        array = self.group.get(name)
        if not isinstance(array, zarr.Array):
            raise StoreError(f"{self.path}: has no array {name!r}; {remedy(self.path)}")
        try:
            if array.nchunks_initialized != array.nchunks:
                raise StoreError(f"{self.path}/{name}: a chunk is missing; {remedy(self.path)}")
            return np.asarray(array[...] if index is None else array[index])
        except (ValueError, OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(
                f"{self.path}/{name}: damaged ({reason}); {remedy(self.path)}"
            ) from None


def open_arrays(path: Path, schema: str) -> ArrayStore:
    """Open a group and check that it is of the kind ``schema``."""
    if not path.is_dir():
        raise StoreError(f"{path}: no such store; run dvc repro or dvc pull")
    try:
        group = zarr.open_group(path, mode="r", zarr_format=3)
        attributes = dict(group.attrs)
    except (ValueError, KeyError, TypeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path}: not a readable Zarr store ({reason}); {remedy(path)}") from None
    found = attributes.pop("schema", None)
    if found != schema:
        raise StoreError(f"{path}: schema {found!r}, this version reads {schema!r}; {remedy(path)}")
    return ArrayStore(path, schema, attributes, group)


def remedy(path: Path) -> str:
    """Say how to get a store back."""
    return f"restore it with `dvc checkout {path}` or make it again with `dvc repro`"
