"""Read the bytes of an image by its path, which may point into a shard.

===============================  ==========================================================
``data/cat/1.jpg``               a file
``data/0001.tar/cat/1.jpg``      a member of a tar file
``data/a.parquet/image/000012``  row 12 of the column ``image`` of a Parquet file, from 0
===============================  ==========================================================

Nothing but the path is needed: it is all that manifests, cluster workers and the report have.
"""

from pathlib import Path

from pipeline.errors import InputError
from pipeline.image_files.parquet_file import open_parquet
from pipeline.image_files.tar_file import read_member

IMAGE_SUFFIXES = frozenset(
    {
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
        *(".heic", ".heif", ".avif"),
    }
)
TAR, PARQUET = ".tar", ".parquet"
MAX_FILE_BYTES = 2**30  # an uncompressed 16-bit RGB image of 100 million pixels is 0.6 GB
REMEDY = "replace or remove the file"


def unreadable(path: Path, reason: str, remedy: str = REMEDY) -> InputError:
    """Return the error for an unreadable image, in one line even if the file name or the reason has line breaks."""
    return InputError(" ".join(f"{path}: {reason}; {remedy}".split()))


def is_shard(path: Path) -> bool:
    """Return whether a file is a shard of many images, by its suffix."""
    return path.suffix.lower() in SHARDS


def file_of(path: Path) -> Path:
    """Return the file on disk that contains an image: the shard on its path, or the path itself."""
    for parent in path.parents:
        if is_shard(parent) and parent.is_file():
            return parent
    return path


def row_path(file: Path, column: str, row: int) -> Path:
    """Return the path of the image in a row (from 0) of a Parquet file."""
    return file / column / f"{row:08}"


def read_bytes(path: Path) -> bytes:
    """Return the bytes of an image; raise InputError if it cannot be read."""
    try:
        file = file_of(path)
        data = _read_file(path) if file == path else _read_from_shard(file, path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, f"cannot be read ({error})") from error
    if not data:
        raise unreadable(path, "the file is empty (0 bytes)")
    return data


def _read_file(path: Path) -> bytes:
    if path.is_dir():
        raise unreadable(path, "is a folder, not an image file")
    if not path.is_file():
        raise unreadable(path, "no such file", "restore the file or make the manifest again")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise unreadable(path, f"{size:,} bytes are more than the limit for an image")
    return path.read_bytes()


def _read_from_shard(shard: Path, path: Path) -> bytes:
    data = SHARDS[shard.suffix.lower()](shard, path.relative_to(shard))
    if data is None:
        raise unreadable(path, f"{shard.name} has no image there", "repair the file, then make the manifest again")
    if len(data) > MAX_FILE_BYTES:
        raise unreadable(path, f"{len(data):,} bytes are more than the limit for an image")
    return data


def _read_from_tar(shard: Path, inside: Path) -> bytes | None:
    return read_member(shard, inside.as_posix(), max_bytes=MAX_FILE_BYTES + 1)


def _read_from_parquet(shard: Path, inside: Path) -> bytes | None:
    column, row = inside.parent.as_posix(), inside.name
    return open_parquet(shard).image(column, int(row) if row.isdecimal() else -1)


# by suffix, a function that returns the bytes of an image inside a shard, or None if there is no such image
SHARDS = {TAR: _read_from_tar, PARQUET: _read_from_parquet}
