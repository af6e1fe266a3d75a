"""Nothing half-written: outputs are made beside their final place and renamed into it when whole."""

from __future__ import annotations

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

    After an exception, what stood at ``path`` before stands there again. A killed process can leave the siblings
    (``.NAME.partial``, ``.NAME.former``) behind; the next run takes the former back if nothing took its place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside, former = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.former")
    _take_back(former, path)
    _remove(aside)
    try:
        yield aside
        if aside.is_dir() and path.exists():
            # a folder cannot be renamed over one that has files, and one that is half deleted must not be seen
            path.replace(former)
        aside.replace(path)
    finally:
        _take_back(former, path)
        _remove(aside)


def _take_back(former: Path, path: Path) -> None:
    """Put ``former`` back where nothing has taken its place; otherwise it is done with."""
    if former.exists() and not path.exists():
        former.replace(path)
    _remove(former)
