"""Named arrays with attributes in one small Zarr group: prompts, source models, pseudo-labels, target models.

Like the embedding stores they hold nothing of the machine that made them, carry checksums, and appear whole or not
at all. Each array is one chunk per first index, so that one seed is read without the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

from pipeline.errors import StoreError
from pipeline.write_aside import write_aside


def write_arrays(
    path: Path, schema: str, arrays: Mapping[str, npt.NDArray[Any]], attributes: Mapping[str, Any]
) -> None:
    """Write a whole group aside and rename it into place."""
    with write_aside(path) as aside:
        group = zarr.create_group(aside, zarr_format=3, attributes={"schema": schema, **attributes})
        for name, values in arrays.items():
            array = group.create_array(
                name,
                shape=values.shape,
                dtype=values.dtype,
                chunks=(1, *values.shape[1:]),
                shards=None,
                compressors=Crc32cCodec(),
                config={"write_empty_chunks": True},  # a chunk that is absent is then always a loss
            )
            array[...] = values


@dataclass(frozen=True)
class ArrayStore:
    """A group opened for reading."""

    path: Path
    attributes: dict[str, Any]
    group: zarr.Group

    def read(self, name: str, index: int | None = None) -> npt.NDArray[Any]:
        """Return a whole array, or what it holds at ``index`` of its first axis."""
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
    return ArrayStore(path, attributes, group)


def remedy(path: Path) -> str:
    """Say how to get a store back."""
    return f"restore it with `dvc checkout {path}` or make it again with `dvc repro`"
