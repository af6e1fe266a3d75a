"""Keep embedded rows in an append-only log, so that a killed extraction continues where it stopped.

One folder per (weights, preprocessing, view settings), outside DVC's outputs, has one log file per writer. Rows are
keyed by the sha256 of their image, so images added to a domain cost only their own forward passes. A file is a
sequence of blocks: header, digests, rows. A block that was being written when the process died has a wrong CRC or
length, and the writer removes it. Deleting the folder costs time, never results. (SQLite takes 2.5 times as long.)
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError
from pipeline.method.rows import Matrix

MAGIC = b"RFE1"
HEADER = struct.Struct("<4sIIII")
DIGEST_BYTES = 32


class ProgressLog:
    """Rows of one view of one encoder by image digest; a context manager that holds the writer's lock.

    All logs in ``folder`` are read, and rows are appended to that of ``writer``. A second process with the same
    ``writer`` raises StoreError.
    """

    def __init__(self, folder: Path, writer: str, *, width: int, dtype: npt.DTypeLike) -> None:
        self._width = width
        self._dtype = np.dtype(dtype)
        self._row_bytes = width * self._dtype.itemsize
        self._own_path = folder / f"{writer}.rows"
        folder.mkdir(parents=True, exist_ok=True)
        self._paths = [self._own_path, *sorted(p for p in folder.glob("*.rows") if p != self._own_path)]
        self._position: dict[bytes, tuple[int, int]] = {}  # digest: (file number, offset of the row)
        self._file = self._lock()
        for number, path in enumerate(self._paths):
            length = self._index(number, path)
            if number == 0:  # our own file: remove the incomplete block of a killed run
                self._file.truncate(length)
        self._file.seek(0, 2)

    def _lock(self) -> BinaryIO:
        file = self._own_path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise StoreError(
                f"{self._own_path}: another process is extracting the same embeddings; wait for it or stop it"
            ) from None
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._position

    def __len__(self) -> int:
        return len(self._position)

    def _index(self, number: int, path: Path) -> int:
        """Index the rows of all complete blocks; return the length of the file up to the last one."""
        length = 0
        with path.open("rb") as file:
            total = os.fstat(file.fileno()).st_size
            while len(head := file.read(HEADER.size)) == HEADER.size:
                magic, count, width, itemsize, crc = HEADER.unpack(head)
                if (magic, width, itemsize) != (MAGIC, self._width, self._dtype.itemsize):
                    break
                size = count * (DIGEST_BYTES + self._row_bytes)
                if size > total - file.tell():  # truncated, or a damaged header
                    break
                payload = file.read(size)
                if len(payload) != size or zlib.crc32(payload) != crc:
                    break
                ends = range(DIGEST_BYTES, (count + 1) * DIGEST_BYTES, DIGEST_BYTES)
                self._remember(number, length, [payload[end - DIGEST_BYTES : end] for end in ends])
                length = file.tell()
        return length

    def _remember(self, number: int, block: int, digests: Sequence[bytes]) -> None:
        first = block + HEADER.size + len(digests) * DIGEST_BYTES
        for i, digest in enumerate(digests):
            self._position.setdefault(digest, (number, first + i * self._row_bytes))

    def append(self, digests: Sequence[bytes], rows: Matrix) -> None:
        """Add the rows (n, d) of images with these n sha256 digests; once this returns, they survive a SIGKILL."""
        payload = b"".join(digests) + rows.astype(self._dtype, copy=False).tobytes()
        block = self._file.tell()
        header = HEADER.pack(MAGIC, len(digests), self._width, self._dtype.itemsize, zlib.crc32(payload))
        self._file.write(header + payload)
        self._file.flush()
        self._remember(0, block, digests)

    def gather(self, digests: Iterable[bytes]) -> Matrix:
        """Return the rows (n, d) of the images with these digests, in this order."""
        positions = [self._position[digest] for digest in digests]
        with ExitStack() as stack:
            files = {n: stack.enter_context(self._paths[n].open("rb")).fileno() for n in {n for n, _ in positions}}
            content = b"".join(os.pread(files[number], self._row_bytes, offset) for number, offset in positions)
        return np.frombuffer(content, self._dtype).reshape(-1, self._width)
