"""Nothing half-written: outputs are made beside their final place and renamed into it when whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a sibling of ``path`` to write a file or folder to; move it to ``path`` on success.

    After an exception nothing is left but what stood at ``path`` before. A killed process can leave the
    sibling (``.NAME.partial``) behind; nothing reads it, and the next run removes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    _remove(aside)
    try:
        yield aside
        if aside.is_dir():  # a folder cannot be renamed over a folder that has files
            _remove(path)
        os.replace(aside, path)  # noqa: PTH105  (Path.replace differs only in spelling)
    finally:
        _remove(aside)
