"""Named arrays with attributes in one small Zarr group: prompts and models.

Like the embedding stores they hold nothing of the machine that made them, carry checksums, and
appear whole or not at all. Each array is one chunk per first index, so that one seed is read
without the others. `prompt_store`, `source_store` and `target_store`
say which arrays and attributes a kind of store has; all of them are read here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.store.array_layout import ArrayLayout, array_layout, new_array
from pipeline.store.seal import damaged, read_sealed, seal, unusable
from pipeline.write_aside import write_aside

Value = TypeVar("Value")


@dataclass(frozen=True)
class ArrayWriter:
    """A group that is being written; several threads may write, each its own chunks."""

    path: Path
    attributes: dict[str, Any]

    def reserve(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike, *, leading: int = 1) -> ArrayLayout:
        """Create an array with one chunk per index of its ``leading`` axes, to be filled in parts."""
        return new_array(self.path / name, shape, dtype, leading)

    def write(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write whole arrays."""
        for name, values in arrays.items():
            array = self.reserve(name, values.shape, values.dtype)
            for index, chunk in enumerate(values):
                array.write((index,), np.asarray(chunk))


@contextmanager
def writing(path: Path, schema: str) -> Iterator[ArrayWriter]:
    """Write a group aside; it is renamed to ``path`` when all went well."""
    with write_aside(path) as aside:
        aside.mkdir()
        writer = ArrayWriter(aside, {"schema": schema})
        yield writer
        seal(aside, {"attributes": writer.attributes, "zarr_format": 3, "node_type": "group"})


def write_arrays(
    path: Path, schema: str, arrays: Mapping[str, npt.NDArray[Any]], attributes: Mapping[str, Any]
) -> None:
    """Write a whole group aside and rename it to ``path``.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "model.zarr"
    >>> write_arrays(path, "example/1", {"b": np.eye(2)}, {"classes": ["bike", "mug"]})
    >>> store = open_arrays(path, "example/1")
    >>> store.read("b", 1, shape=(2,))
    array([0., 1.])
    >>> store.attribute("classes", list, of=str)
    ['bike', 'mug']
    """
    with writing(path, schema) as store:
        store.attributes.update(attributes)
        store.write(arrays)


@dataclass(frozen=True)
class ArrayStore:
    """A group opened for reading: its metadata is checked, its numbers are when they are read."""

    path: Path
    schema: str
    attributes: dict[str, Any]
    arrays: Mapping[str, ArrayLayout]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a path, which is opened there."""
        return open_arrays, (self.path.absolute(), self.schema)

    def read(self, name: str, *index: int, shape: tuple[int | None, ...] | None = None) -> npt.NDArray[Any]:
        """Return an array, or what it holds at ``index`` of its first axis or axes.

        ``shape`` is what the result must have; None stands for any size along an axis.
        """
        if name not in self.arrays:
            raise unusable(self.path, f"has no array {name!r}")
        found = self.arrays[name].shape[len(index) :]
        if shape is not None and (
            len(found) != len(shape) or any(size not in (None, n) for n, size in zip(found, shape, strict=True))
        ):
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise unusable(self.path, f"array {name} has shape {found}, not ({expected})")
        try:
            return self.arrays[name].read(index)
        except (ValueError, OSError) as error:
            raise damaged(self.path / name, error, store=self.path) from None

    def attribute(self, name: str, kind: type[Value], *, of: type | None = None) -> Value:
        """Return an attribute of the type ``kind``; the items of a list are of the type ``of``."""
        value = self.attributes.get(name)
        if not isinstance(value, kind) or (
            of is not None and not (isinstance(value, list) and all(type(item) is of for item in value))
        ):
            raise unusable(self.path, f"its attribute {name!r} is absent or malformed")
        return value


def open_arrays(path: Path, schema: str) -> ArrayStore:
    """Open a group; check that it is of the kind ``schema`` and that its files fit its metadata."""
    sealed = read_sealed(path, schema)
    return ArrayStore(path, schema, sealed.attributes, sealed.open_each(array_layout))
