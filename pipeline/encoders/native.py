"""The compiled part of the package: `resample.c` and `haar_views.c`, if there was a compiler when it was installed.

Both do nothing but what Python code beside them does, to the bit, only faster; so nobody's embeddings depend on a
compiler. They are plain C without Python's interface, called through ctypes, which lets other threads run meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.machinery
from pathlib import Path
from typing import Any

SOURCES = ("haar_views.c", "processors.h", "resample.c")
REMEDY = "with a C compiler there, run: pip install --editable . --no-deps"

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int32
_SIDE = [_INT, _POINTER, _POINTER, _INT]
ARGUMENTS = {
    "referee_resample": [_POINTER, ctypes.c_int64, *[_INT] * 3, *_SIDE, *_SIDE, _POINTER],
    "referee_haar_views": [_POINTER, _INT, _INT, *[_POINTER] * 4, ctypes.c_float, *[_POINTER] * 3],
}


@functools.cache
def library() -> Any | None:
    """Return the compiled functions, or None where there are none, or none of the present source."""
    folder = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = folder / f"_native{suffix}"
        if not file.is_file():
            continue
        try:
            loaded = ctypes.CDLL(str(file))
            made_of = ctypes.string_at(
                ctypes.addressof(ctypes.c_char.in_dll(loaded, "referee_source"))
            )
            for name, arguments in ARGUMENTS.items():
                function = getattr(loaded, name)
                function.argtypes, function.restype = arguments, ctypes.c_int
        except (OSError, AttributeError, ValueError):  # of another machine
            continue
        if made_of.decode() == source_digest(folder):
            return loaded
    return None


def source_digest(folder: Path) -> str:
    """Return the sha256 of the C sources in ``folder``; setup.py compiles it in."""
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in SOURCES)).hexdigest()
