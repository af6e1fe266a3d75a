"""Read .npy and .npz files made by others, as numbers and strings only and without unpickling."""

import lzma
import re
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError, did_you_mean, one_line

PATHS = "paths"
BOMB_BYTES, BOMB_RATIO = 2**28, 50  # real embeddings compress by a factor of 1.1

# Exceptions of numpy's and zipfile's readers on malformed files; a false header can request any amount of memory.
MALFORMED = (
    OSError, EOFError, zipfile.BadZipFile, LookupError, NotImplementedError, RuntimeError, SyntaxError, TypeError,
    AttributeError, AssertionError, MemoryError, OverflowError, zlib.error, struct.error, lzma.LZMAError,
    tokenize.TokenError, Warning,
)  # fmt: skip


def read_array(file: Path, name: str | None) -> npt.NDArray[Any]:
    """Return the array of a .npy file, or the array ``name`` of an .npz file; raise InputError if it is unusable."""
    array = _load(file, name)
    if isinstance(array, list):
        raise InputError(
            f"{file}: has no array {name!r}{did_you_mean(name or '', array)} "
            "(models.*.arrays in suite.yaml can name another)"
        )
    return array


def read_paths(file: Path, name: str = PATHS) -> list[str] | None:
    """Return the (n,) strings DOMAIN/CLASS/FILE of an .npz file, or None if it has no such array."""
    paths = _load(file, name) if file.suffix == ".npz" else []
    if isinstance(paths, list):
        return None
    if paths.ndim != 1 or paths.dtype.kind != "U":
        raise InputError(f"{file}: {name!r} must be a list of strings, not {paths.dtype} {paths.shape}")
    texts = [str(path) for path in paths]
    for row, text in enumerate(texts):
        path = PurePosixPath(text)
        # as_posix() differs if a path contains //, ./ or a trailing slash: it would not match the path of an image
        if len(path.parts) < 3 or ".." in path.parts or text[0] == "/" or path.as_posix() != text:
            raise InputError(f"{file}: {name}[{row}] = {text!r} is not DOMAIN/CLASS/FILE")
    return texts


def is_domain(part: str, key: str) -> bool:
    """Check whether the DOMAIN of a path means the domain ``key``; keys have no spaces ("Real World" is real_world)."""
    return re.sub(r"\W", "_", part).lower() == key.lower()


def _refuse_bombs(stream: BinaryIO) -> None:
    """Raise ValueError if an array is absurdly larger than its compressed form."""
    if not zipfile.is_zipfile(stream):
        stream.seek(0)
        return
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            if entry.file_size > BOMB_BYTES and entry.file_size > BOMB_RATIO * entry.compress_size:
                raise ValueError(f"{entry.filename} would unpack to {entry.file_size:,} bytes")
    stream.seek(0)


def _load(file: Path, name: str | None) -> npt.NDArray[Any] | list[str]:
    """Return an array, or the names of all arrays if an .npz file has none called ``name``."""
    try:
        with file.open("rb") as stream:
            # numpy would try to unpickle anything else
            if not stream.peek(6)[:6].startswith((b"\x93NUMPY", b"PK")):
                raise InputError(f"{file}: not a .npy or .npz file")
            _refuse_bombs(stream)
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                return np.asarray(loaded[name]) if name in loaded.files else list(loaded.files)
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(f"{file}: no such file; put it there, or correct its path in suite.yaml") from None
    except (ValueError, *MALFORMED) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{file}: {name or 'its array'} holds Python objects, which could run code when read; "
                "save it as an array of numbers or strings"
            ) from None
        reason = one_line(error) or type(error).__name__
        raise InputError(f"{file}: not a readable .npy or .npz ({reason})") from None
