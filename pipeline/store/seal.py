"""A store's metadata under checksums: what stands in its zarr.json files cannot change unnoticed.

The numbers of a store carry a CRC-32C per chunk, but which numbers they are (shape, type, classes, provenance) stands
in zarr.json files that Zarr does not check. When a store is whole, its root's attributes get ``checksums``, the CRC-32C
of every array's zarr.json, and ``checksum``, that of the root's own content. So a flipped bit anywhere in a store is
noticed before a number of it is used. A checksum is no signature: form and sizes are checked as well (`array_layout`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import google_crc32c

from pipeline.errors import StoreError, pass_on_machine_error

ROOT = "zarr.json"
ARRAYS, OWN = "checksums", "checksum"
_NAME = re.compile(r"[A-Za-z0-9_]+")  # of an array: one folder inside the store


def remedy(path: Path) -> str:
    """Say how to get a store back; DVC alone does not see damage that left the time of a file as it was."""
    return f"restore it with `rm -r {path} && dvc checkout {path}` or make it again with `rm -r {path} && dvc repro`"


def crc_text(content: bytes) -> str:
    """Return the CRC-32C of ``content`` as eight hexadecimal digits."""
    return f"{google_crc32c.value(content):08x}"


def content_crc(content: dict[str, Any]) -> str:
    """Return the CRC-32C of JSON content in its canonical form: layout and order of keys do not count."""
    return crc_text(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def seal(folder: Path) -> None:
    """Add the checksums to a whole group of arrays, one level deep."""
    arrays = sorted(child.name for child in folder.iterdir() if (child / ROOT).is_file())
    root = json.loads((folder / ROOT).read_text(encoding="utf-8"))
    root["attributes"][ARRAYS] = {
        name: crc_text((folder / name / ROOT).read_bytes()) for name in arrays
    }
    root["attributes"][OWN] = content_crc(root)
    (folder / ROOT).write_text(json.dumps(root, indent=2), encoding="utf-8")


def read_sealed(folder: Path, schema: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the attributes of a store and each array's metadata, checked; else a `StoreError` with the remedy."""
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such store; run dvc repro or dvc pull")
    root = _mapping(folder, ROOT, _bytes(folder, ROOT))
    attributes = root.get("attributes")
    if not isinstance(attributes, dict):
        raise StoreError(f"{folder}: not a store of ours (no attributes); {remedy(folder)}")
    found = attributes.get("schema")
    if found != schema:
        raise StoreError(
            f"{folder}: schema {found!r}, this version reads {schema!r}; {remedy(folder)}"
        )
    own, arrays = attributes.pop(OWN, None), attributes.get(ARRAYS)
    if not isinstance(arrays, dict) or own != content_crc(root):
        raise StoreError(f"{folder}/{ROOT}: damaged (the checksum is wrong); {remedy(folder)}")
    metadata = {name: _array(folder, name, crc) for name, crc in arrays.items()}
    return {
        key: value for key, value in attributes.items() if key not in (ARRAYS, "schema")
    }, metadata


def _array(folder: Path, name: str, crc: object) -> dict[str, Any]:
    if not _NAME.fullmatch(name):
        raise StoreError(f"{folder}: {name!r} is not the name of an array; {remedy(folder)}")
    place = f"{name}/{ROOT}"
    content = _bytes(folder, place)
    if crc_text(content) != crc:
        raise StoreError(f"{folder}/{place}: damaged (the checksum is wrong); {remedy(folder)}")
    return _mapping(folder, place, content)


def _bytes(folder: Path, place: str) -> bytes:
    try:
        return (folder / place).read_bytes()
    except OSError as error:
        pass_on_machine_error(error)
        reason = error.strerror or "unknown"
        raise StoreError(f"{folder}/{place}: cannot be read ({reason}); {remedy(folder)}") from None


def _mapping(folder: Path, place: str, content: bytes) -> dict[str, Any]:
    """Parse JSON; whatever is in there, a mapping comes out or a `StoreError`."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(
            f"{folder}: not a readable Zarr store ({place}: {reason}); {remedy(folder)}"
        ) from None
    if not isinstance(found, dict):
        raise StoreError(f"{folder}: not a readable Zarr store ({place}); {remedy(folder)}")
    return found
