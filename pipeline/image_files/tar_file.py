"""Members of tar files, read in place: the headers say where each begins, and nothing is unpacked."""

import posixpath
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path

from cachetools import LRUCache, cached

from pipeline.errors import InputError, one_line, pass_on_machine_error

COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}
KEPT = 1_000_000  # members whose offsets are remembered, 0.2 GB


def as_it_is(file: Path) -> tuple[Path, int, int]:
    """Return a key under which what was read of a file is kept until the file changes."""
    stat = file.stat()
    return file, stat.st_mtime_ns, stat.st_size


# the condition: threads that want the same index wait for the one that reads it
@cached(LRUCache(KEPT, getsizeof=lambda index: min(len(index), KEPT)), key=as_it_is, condition=threading.Condition())
def members(file: Path) -> Mapping[str, tuple[int, int]]:
    """Return offset and size of the regular files in a tar by name, in order; what is wrong is an `InputError`.

    Names are as ``tar -t`` shows them, without a leading ``./`` or ``/``.
    """
    found: dict[str, tuple[int, int]] = {}
    try:
        with file.open("rb") as opened, tarfile.open(fileobj=opened, mode="r:") as tar:
            while (entry := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # a kilobyte of each
                name = posixpath.normpath(entry.name).lstrip("/")
                if not entry.isreg():
                    continue
                if name in found:
                    raise InputError(f"{file}: has {name!r} twice; give each image a name of its own")
                found[name] = entry.offset_data, entry.size
            opened.seek(tar.offset)  # tarfile takes a damaged header for the end, which is zeros
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
        raise InputError(f"{file}: cut off, or not a tar file ({one_line(error)}); copy or download it again") from None
    return found


def read_member(file: Path, name: str, *, most: int) -> bytes | None:
    """Return the bytes of a member, at most so many; None where there is none of this name."""
    index = members(file)
    if name not in index:
        return None
    offset, size = index[name]
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(min(size, most))
