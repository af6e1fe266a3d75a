"""Read Parquet files: all rows without their images, or the image of a single row.

Images are in a column of bytes, or of the structs of ``bytes`` and ``path`` that Hugging Face's `datasets` writes.
Parquet is read by row groups. The most recent ones are cached, because the next images are usually in the same groups.
"""

import bisect
import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cachetools import LRUCache, cached

from pipeline.errors import InputError, one_line, pass_on_machine_error
from pipeline.image_files.tar_file import file_version

CACHE_BYTES = 2**29  # size of the cache of row groups
MAX_GROUP_BYTES = 2**31  # maximum size of a row group, which must fit into memory

ColumnKind = Literal["image", "text", "number", "other"]  # image: bytes, or a struct with bytes


@dataclass(frozen=True, eq=False)
class ParquetFile:
    """The metadata of a Parquet file."""

    path: Path
    metadata: Any  # pyarrow.parquet.FileMetaData
    columns: dict[str, ColumnKind]  # kind by name
    names: dict[str, list[str]]  # class names by column of class numbers, from Hugging Face's metadata
    first_rows: tuple[int, ...]  # first row of each row group, then the number of rows

    def rows(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield each row as {column: value}, reading only these columns."""
        if not columns:
            yield from itertools.repeat({}, self.first_rows[-1])
            return
        with _opened(self.path, self.metadata) as opened:
            for batch in opened.iter_batches(columns=list(columns)):
                # as_py() on each value takes 1.5 times as long
                values = (batch[name].to_pylist() for name in columns)
                yield from (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))

    def image(self, column: str, row: int) -> bytes | None:
        """Return the image in a row, or None if there is no such row or it has no image."""
        if not 0 <= row < self.first_rows[-1] or self.columns.get(column) != "image":
            return None
        group = bisect.bisect_right(self.first_rows, row) - 1
        value = _read_group(self, column, group)[row - self.first_rows[group]].as_py()
        data = value.get("bytes") if isinstance(value, dict) else value
        return data if isinstance(data, bytes) else None


# condition: only one thread reads a file, the others wait for its result
@cached(LRUCache(64), key=file_version, condition=threading.Condition())
def open_parquet(file: Path) -> ParquetFile:
    """Read the metadata of a Parquet file; raise InputError if it is not readable."""
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


def _kind(type_: Any) -> ColumnKind:
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
    """Return class names by column from Hugging Face's metadata {"info": {"features": {"label": {"names": …}}}}."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        named = {column: feature["names"] for column, feature in features.items() if "names" in feature}
    except (LookupError, TypeError, AttributeError, ValueError):
        return {}
    return {column: [str(name) for name in names] for column, names in named.items()}


@cached(
    # a larger group is cached alone
    LRUCache(CACHE_BYTES, getsizeof=lambda images: min(images.nbytes, CACHE_BYTES)),
    condition=threading.Condition(),
)
def _read_group(file: ParquetFile, column: str, group: int) -> Any:
    """Read the images of a row group: an array of bytes, or of structs with bytes."""
    # the size of the whole group: pyarrow crashes the process on damaged metadata of a column
    size = file.metadata.row_group(group).total_byte_size
    if size > MAX_GROUP_BYTES:
        raise InputError(
            f"{file.path}: row group {group} holds {size / 1e9:.1f} GB, which must fit into memory; "
            "write the file with smaller row groups (row_group_size=1000)"
        )
    with _opened(file.path, file.metadata) as opened:
        return opened.read_row_group(group, columns=[column])[column]


@contextmanager
def _opened(file: Path, metadata: Any = None) -> Iterator[Any]:
    """Open a Parquet file; raise InputError if opening or reading it fails."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{file}: needs pyarrow, which is not installed; pip install 'referee-pipeline[parquet]'"
        ) from None
    try:
        with pq.ParquetFile(file, metadata=metadata) as opened:
            yield opened
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        pass_on_machine_error(error)
        raise InputError(
            f"{file}: truncated, or not a Parquet file ({one_line(error)}); copy or download it again"
        ) from None
