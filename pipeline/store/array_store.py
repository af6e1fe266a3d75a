"""Read and write Zarr groups of arrays with attributes, protected by checksums.

The same input gives the same bytes, and a store is written completely or not at all. Array data carries a CRC-32C per
chunk (`array_layout`), but its meaning (shape, type, classes, provenance) is in zarr.json files, which Zarr does not
protect. The root's attributes therefore include ``checksums``, the CRC-32C of every array's zarr.json, and
``checksum``, that of the root itself: a flipped bit anywhere in a store is detected before its numbers are used. A
checksum is not a signature, so structure and sizes are validated as well.

`prompt_store`, `source_store`, `target_store` and `stream_state` define the arrays and attributes of each kind of
store. Their `ArrayStore` has one chunk per first index, so that one seed can be read alone; `embedding_store` has
shards of rows.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import google_crc32c
import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError, one_line, pass_on_machine_error
from pipeline.store.array_layout import ROOT, ArrayLayout, Metadata, array_layout
from pipeline.write_aside import write_aside

_ARRAY_NAME = re.compile(r"[A-Za-z0-9_]+")  # one folder inside the store

Value = TypeVar("Value")
Array = TypeVar("Array")


def unusable(store: Path, problem: str, *, file: Path | None = None) -> StoreError:
    """Return the error for a store, or a file in it, that must not be used, with the remedy."""
    return StoreError(  # rm, because DVC overlooks damage that does not change a file's modification time
        f"{file or store}: {problem}; restore it with `rm -r {store} && dvc checkout {store}` or recreate it with "
        f"`rm -r {store} && dvc repro`"
    )


def damaged(file: Path, error: Exception | str, *, store: Path) -> StoreError:
    """Return the error for a damaged part of a store; errors of the machine (no memory, no access) are re-raised."""
    if isinstance(error, Exception):
        pass_on_machine_error(error)
        error = one_line(error)
    return unusable(store, f"damaged ({error})", file=file)


def differences(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, recorded value, current value) for every key whose values differ; None if a value is absent."""
    pairs = ((key, recorded.get(key), current.get(key)) for key in {**current, **recorded})
    return ((key, old, new) for key, old, new in pairs if old != new)


def crc_text(content: bytes) -> str:
    """Return the CRC-32C of ``content`` as eight hexadecimal digits."""
    return f"{google_crc32c.value(content):08x}"


def content_crc(content: dict[str, Any]) -> str:
    """Return the CRC-32C of JSON content, regardless of whitespace and the order of keys."""
    return crc_text(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


@dataclass(frozen=True)
class ArrayWriter:
    """A group that is being written; several threads may write different chunks."""

    path: Path
    attributes: dict[str, Any]

    def reserve(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike, *, leading: int = 1) -> ArrayLayout:
        """Create an array with one chunk per index of its ``leading`` axes, to be written chunk by chunk."""
        layout = ArrayLayout(self.path / name, shape, leading, np.dtype(dtype).newbyteorder("<"))
        layout.create()
        return layout

    def write(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write whole arrays."""
        for name, values in arrays.items():
            array = self.reserve(name, values.shape, values.dtype)
            for index, chunk in enumerate(values):
                array.write((index,), np.asarray(chunk))


@contextmanager
def writing(path: Path, schema: str) -> Iterator[ArrayWriter]:
    """Write a group to a temporary folder, which is renamed to ``path`` on success."""
    with write_aside(path) as aside:
        aside.mkdir()
        writer = ArrayWriter(aside.absolute(), {"schema": schema})
        yield writer
        checksums = {file.parent.name: crc_text(file.read_bytes()) for file in sorted(aside.glob(f"*/{ROOT}"))}
        writer.attributes["checksums"] = checksums
        root = {"attributes": writer.attributes, "zarr_format": 3, "node_type": "group"}
        writer.attributes["checksum"] = content_crc(root)
        (aside / ROOT).write_text(json.dumps(root, indent=2), encoding="utf-8")


def write_arrays(
    path: Path, schema: str, arrays: Mapping[str, npt.NDArray[Any]], attributes: Mapping[str, Any]
) -> None:
    """Write a complete group to ``path``.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "model.zarr"
    >>> write_arrays(path, "example/1", {"b": np.eye(2)}, {"classes": ["bike", "mug"]})
    >>> store = open_arrays(path, "example/1")
    >>> store.read("b", 1, shape=(2,))
    array([0., 1.])
    >>> store.attribute("classes", list, item_type=str)
    ['bike', 'mug']
    """
    with writing(path, schema) as store:
        store.attributes.update(attributes)
        store.write(arrays)


@dataclass(frozen=True)
class ArrayStore:
    """A group opened for reading; its metadata has been verified, its data is verified when read."""

    path: Path
    schema: str
    attributes: dict[str, Any]
    arrays: Mapping[str, ArrayLayout]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a path, to be opened by the other process."""
        return open_arrays, (self.path.absolute(), self.schema)

    def read(self, name: str, *index: int, shape: tuple[int | None, ...] | None = None) -> npt.NDArray[Any]:
        """Return an array, or the subarray at ``index`` of its first axes.

        ``shape`` is the expected shape of the result; None means any size along that axis.
        """
        if name not in self.arrays:
            raise unusable(self.path, f"has no array {name!r}")
        actual = self.arrays[name].shape[len(index) :]
        if shape is not None and (
            len(actual) != len(shape) or any(size not in (None, n) for n, size in zip(actual, shape, strict=True))
        ):
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise unusable(self.path, f"array {name} has shape {actual}, not ({expected})")
        try:
            return self.arrays[name].read(index)
        except (ValueError, OSError) as error:
            raise damaged(self.path / name, error, store=self.path) from None

    def attribute(self, name: str, kind: type[Value], *, item_type: type | None = None) -> Value:
        """Return an attribute of type ``kind``, if a list then with items of this type."""
        value = self.attributes.get(name)
        if not isinstance(value, kind) or (
            item_type is not None and not (isinstance(value, list) and all(type(item) is item_type for item in value))
        ):
            raise unusable(self.path, f"its attribute {name!r} is absent or malformed")
        return value


def open_arrays(path: Path, schema: str) -> ArrayStore:
    """Open a group after checking that it has this ``schema`` and that its files match its metadata."""
    attributes, arrays = open_group(path, schema, array_layout)
    return ArrayStore(path, schema, attributes, arrays)


def open_group(
    path: Path, schema: str, open_array: Callable[[Path, Metadata], Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a group's attributes and its arrays, opened by a function of `array_layout`.

    A `StoreError` with a remedy is raised if anything is wrong.
    """
    if not path.is_dir():
        raise StoreError(f"{path}: no such store; run dvc repro or dvc pull")
    root = _metadata(path, ROOT)
    attributes = root.get("attributes")
    stored_schema = attributes.get("schema") if isinstance(attributes, dict) else None
    if not isinstance(attributes, dict) or stored_schema != schema:
        raise StoreError(
            f"{path}: schema {stored_schema!r} is from another version of this package, which reads {schema!r}; "
            f"recreate it with `rm -r {path} && dvc repro --allow-missing` (docs/how-to/upgrading.md)"
        )
    checksum, checksums = attributes.pop("checksum", None), attributes.get("checksums")
    if not isinstance(checksums, dict) or checksum != content_crc(root):
        raise damaged(path / ROOT, "the checksum is wrong", store=path)
    del attributes["schema"], attributes["checksums"]
    arrays = {}
    for name, crc in checksums.items():
        if not _ARRAY_NAME.fullmatch(name):
            raise unusable(path, f"{name!r} is not the name of an array")
        metadata = _metadata(path, f"{name}/{ROOT}", crc)
        try:
            arrays[name] = open_array(path / name, metadata)
        except (ValueError, OSError) as error:
            raise damaged(path / name, error, store=path) from None
    return attributes, arrays


def _metadata(folder: Path, file: str, crc: object = None) -> Metadata:
    """Parse a zarr.json; raise StoreError if it is damaged or not a mapping."""
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise damaged(folder / file, error, store=folder) from None
    if file != ROOT and crc_text(content) != crc:
        raise damaged(folder / file, "the checksum is wrong", store=folder)
    try:
        metadata = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unusable(folder, f"not a readable Zarr store ({file}: {one_line(error)})") from None
    if not isinstance(metadata, dict):
        raise unusable(folder, f"not a readable Zarr store ({file})")
    return metadata
