"""Parquet files: their rows without the images, and the images of single rows.

An image is a column of bytes, or the struct of ``bytes`` and ``path`` that Hugging Face's `datasets` writes. Parquet is
read by row groups; those read last are kept, because the next images are in the same ones.
"""

import bisect
import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachetools import LRUCache, cached

from pipeline.errors import InputError, one_line, pass_on_machine_error
from pipeline.image_files.tar_file import as_it_is

KEPT_BYTES = 2**29  # of images in row groups that were read last
MOST_BYTES = 2**31  # of images in one row group: they are in memory together


@dataclass(frozen=True, eq=False)
class ParquetFile:
    """What the end of a Parquet file says of the rest."""

    path: Path
    metadata: Any  # pyarrow.parquet.FileMetaData
    columns: dict[str, str]  # their kinds: image (bytes, or a struct with bytes), text, number or other
    names: dict[str, list[str]]  # of columns of class numbers, the classes, as Hugging Face writes them into the file
    first_rows: tuple[int, ...]  # of each row group, and the number of rows

    def rows(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows by column; no other column is read."""
        if not columns:
            yield from itertools.repeat({}, self.first_rows[-1])
            return
        with _opened(self.path, self.metadata) as opened:
            for batch in opened.iter_batches(columns=list(columns)):
                # as_py() of one value at a time is slower by half
                values = (batch[name].to_pylist() for name in columns)
                yield from (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))

    def image(self, column: str, row: int) -> bytes | None:
        """Return the image of a row; None where there is no such row, or none in it."""
        if not 0 <= row < self.first_rows[-1] or self.columns.get(column) != "image":
            return None
        group = bisect.bisect_right(self.first_rows, row) - 1
        value = _read_group(self, column, group)[row - self.first_rows[group]].as_py()
        data = value.get("bytes") if isinstance(value, dict) else value
        return data if isinstance(data, bytes) else None


@cached(LRUCache(64), key=as_it_is, condition=threading.Condition())  # threads wait for the one that reads
def open_parquet(file: Path) -> ParquetFile:
    """Read the end of a Parquet file; what is wrong is an `InputError`."""
    with _opened(file) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
    counts = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return ParquetFile(
        path=file,
        metadata=metadata,
        columns={field.name: _kind(field.type) for field in schema},
        names=_class_names(schema.metadata or {}),
        first_rows=(0, *itertools.accumulate(counts)),
    )


def _kind(type_: Any) -> str:
    from pyarrow import types

    if types.is_struct(type_):
        fields = {type_.field(i).name: type_.field(i).type for i in range(type_.num_fields)}
        return "image" if "bytes" in fields and _kind(fields["bytes"]) == "image" else "other"
    if types.is_dictionary(type_):
        return _kind(type_.value_type)
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_):
        return "image"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    return "number" if types.is_integer(type_) else "other"


def _class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names in Hugging Face's description of a table: {"info": {"features": {"label": {"names": …}}}}."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        named = {column: feature["names"] for column, feature in features.items() if "names" in feature}
    except (LookupError, TypeError, AttributeError, ValueError):
        return {}
    return {column: [str(name) for name in names] for column, names in named.items()}


@cached(
    # a larger one is kept alone
    LRUCache(KEPT_BYTES, getsizeof=lambda images: min(images.nbytes, KEPT_BYTES)),
    condition=threading.Condition(),
)
def _read_group(file: ParquetFile, column: str, group: int) -> Any:
    """Read the images of a row group: an array of bytes, or of structs with bytes."""
    # not of its columns: pyarrow ends the process where their description is damaged
    size = file.metadata.row_group(group).total_byte_size
    if size > MOST_BYTES:
        raise InputError(
            f"{file.path}: row group {group} holds {size / 1e9:.1f} GB, which must be in memory together; "
            "write the file with smaller ones (row_group_size=1000)"
        )
    with _opened(file.path, file.metadata) as opened:
        return opened.read_row_group(group, columns=[column])[column]


@contextmanager
def _opened(file: Path, metadata: Any = None) -> Iterator[Any]:
    """Open a Parquet file; what is wrong with it, there or while it is read, is an `InputError`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{file}: is read with pyarrow, which is not installed; pip install 'referee-pipeline[parquet]'"
        ) from None
    try:
        with pq.ParquetFile(file, metadata=metadata) as opened:
            yield opened
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        pass_on_machine_error(error)
        raise InputError(
            f"{file}: cut off, or not a Parquet file ({one_line(error)}); copy or download it again"
        ) from None
