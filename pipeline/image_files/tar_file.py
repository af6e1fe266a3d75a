"""Read members of tar files in place: their headers give the offsets, and nothing is unpacked."""

import posixpath
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path

from cachetools import LRUCache, cached

from pipeline.errors import InputError, one_line, pass_on_machine_error

COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}
CACHED_MEMBERS = 1_000_000  # number of members whose offsets are cached, 0.2 GB


def file_version(file: Path) -> tuple[Path, int, int]:
    """Return a cache key that changes when the file changes."""
    stat = file.stat()
    return file, stat.st_mtime_ns, stat.st_size


@cached(
    LRUCache(CACHED_MEMBERS, getsizeof=lambda index: min(len(index), CACHED_MEMBERS)),
    key=file_version,
    condition=threading.Condition(),  # only one thread reads an index, the others wait for its result
)
def members(file: Path) -> Mapping[str, tuple[int, int]]:
    """Return {name: (offset, size)} of the regular files in a tar file, in order.

    Names are as in ``tar -t``, without a leading ``./`` or ``/``. Raises InputError if the file is unreadable.
    """
    index: dict[str, tuple[int, int]] = {}
    try:
        with file.open("rb") as opened, tarfile.open(fileobj=opened, mode="r:") as tar:
            while (entry := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # saves a kilobyte per member
                name = posixpath.normpath(entry.name).lstrip("/")
                if not entry.isreg():
                    continue
                if name in index:
                    raise InputError(f"{file}: has {name!r} twice; give each image a different name")
                index[name] = entry.offset_data, entry.size
            opened.seek(tar.offset)  # tarfile stops at a damaged header as if it were the end, a block of zeros
            if opened.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError(f"no member and no end at byte {tar.offset:,}")
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError) as error:
        pass_on_machine_error(error)
        with file.open("rb") as opened:
            method = COMPRESSED.get(opened.read(2))
        if method:
            raise InputError(
                f"{file}: is compressed ({method}), so images in it cannot be read in place; decompress it to a .tar"
            ) from None
        raise InputError(
            f"{file}: truncated, or not a tar file ({one_line(error)}); copy or download it again"
        ) from None
    return index


def read_member(file: Path, name: str, *, max_bytes: int) -> bytes | None:
    """Return the first ``max_bytes`` bytes of a member, or None if there is no such member."""
    index = members(file)
    if name not in index:
        return None
    offset, size = index[name]
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(min(size, max_bytes))
