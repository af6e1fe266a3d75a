"""A store's metadata under checksums: what stands in its zarr.json files cannot change unnoticed.

The numbers of a store carry a CRC-32C per chunk, but their meaning (shape, type, classes,
provenance) stands in zarr.json files that Zarr does not check. When a store is whole, its root's
attributes get ``checksums``, the CRC-32C of every array's zarr.json, and ``checksum``, that of the
root's own content. So a flipped bit anywhere in a store is noticed before a number of it is used.
A checksum is no signature: form and sizes are checked as well (`array_layout`, `shard_reader`).
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import google_crc32c

from pipeline.errors import StoreError, one_line, pass_on_machine_error

ROOT = "zarr.json"
ARRAYS, OWN = "checksums", "checksum"
_NAME = re.compile(r"[A-Za-z0-9_]+")  # of an array: one folder inside the store

Reader = TypeVar("Reader")
Metadata = dict[str, Any]


class SealedGroup(NamedTuple):
    """A group's attributes and the metadata of each of its arrays, all under right checksums."""

    path: Path
    attributes: dict[str, Any]
    arrays: dict[str, Metadata]

    def open_each(self, open_array: Callable[[Path, Metadata], Reader]) -> dict[str, Reader]:
        """Return a reader of each array; ``open_array`` raises `ValueError` where it is damaged."""
        readers = {}
        for name, metadata in self.arrays.items():
            try:
                readers[name] = open_array(self.path / name, metadata)
            except (ValueError, OSError) as error:
                raise damaged(self.path / name, error, store=self.path) from None
        return readers


def remedy(path: Path) -> str:
    """Return how to get a store back; DVC does not see damage that left a file's time as it was."""
    return f"restore it with `rm -r {path} && dvc checkout {path}` or make it again with `rm -r {path} && dvc repro`"


def unusable(path: Path, problem: str) -> StoreError:
    """Return the error of a store that must not be used: what is wrong, and the remedy."""
    return StoreError(f"{path}: {problem}; {remedy(path)}")


def damaged(file: Path, error: Exception | str, *, store: Path) -> StoreError:
    """Return the error of a damaged part of a store; what the machine lacks is raised as it is."""
    if isinstance(error, Exception):
        pass_on_machine_error(error)
        error = one_line(error)
    return StoreError(f"{file}: damaged ({error}); {remedy(store)}")


def crc_text(content: bytes) -> str:
    """Return the CRC-32C of ``content`` as eight hexadecimal digits."""
    return f"{google_crc32c.value(content):08x}"


def content_crc(content: dict[str, Any]) -> str:
    """Return the CRC-32C of JSON content, whatever its layout and the order of its keys."""
    return crc_text(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def seal(folder: Path, root: dict[str, Any]) -> None:
    """Write the root's zarr.json of a whole group of arrays, one level deep, with the checksums in its attributes."""
    root["attributes"][ARRAYS] = {
        file.parent.name: crc_text(file.read_bytes()) for file in sorted(folder.glob(f"*/{ROOT}"))
    }
    root["attributes"][OWN] = content_crc(root)
    (folder / ROOT).write_text(json.dumps(root, indent=2), encoding="utf-8")


def read_sealed(folder: Path, schema: str) -> SealedGroup:
    """Read the metadata of a store and check it; what is wrong is a `StoreError` with the remedy."""
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such store; run dvc repro or dvc pull")
    root = _metadata(folder, ROOT)
    attributes = root.get("attributes")
    if not isinstance(attributes, dict) or attributes.get("schema") != schema:
        found = attributes.get("schema") if isinstance(attributes, dict) else None
        raise StoreError(
            f"{folder}: schema {found!r} is of another version of this package, which reads {schema!r}; make it again "
            f"with `rm -r {folder} && dvc repro --allow-missing` (docs/how-to/upgrading.md)"
        )
    own, arrays = attributes.pop(OWN, None), attributes.pop(ARRAYS, None)
    if not isinstance(arrays, dict) or own != content_crc({**root, "attributes": {**attributes, ARRAYS: arrays}}):
        raise damaged(folder / ROOT, "the checksum is wrong", store=folder)
    for name in arrays:
        if not _NAME.fullmatch(name):
            raise unusable(folder, f"{name!r} is not the name of an array")
    del attributes["schema"]
    metadata = {name: _metadata(folder, f"{name}/{ROOT}", crc) for name, crc in arrays.items()}
    return SealedGroup(folder, attributes, metadata)


def _metadata(folder: Path, file: str, crc: object = None) -> Metadata:
    """Parse a zarr.json; whatever is in there, a mapping comes out or a `StoreError`."""
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise damaged(folder / file, error, store=folder) from None
    if file != ROOT and crc_text(content) != crc:
        raise damaged(folder / file, "the checksum is wrong", store=folder)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unusable(folder, f"not a readable Zarr store ({file}: {one_line(error)})") from None
    if not isinstance(found, dict):
        raise unusable(folder, f"not a readable Zarr store ({file})")
    return found
