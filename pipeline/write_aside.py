"""Write outputs beside their final path and rename them when complete, so that none is ever half-written."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a sibling of ``path`` to write a file or folder to; rename it to ``path`` on success.

    After an exception ``path`` is unchanged. A killed process can leave the siblings (``.NAME.partial``,
    ``.NAME.former``) behind; the next run restores the former one if ``path`` does not exist.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "table.csv"
    >>> with write_aside(path) as aside:
    ...     _ = aside.write_text("a,b")
    ...     path.exists()
    False
    >>> path.read_text()
    'a,b'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside, former = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.former")
    _restore(former, path)
    _remove(aside)
    try:
        yield aside
        if aside.is_dir() and path.exists():
            # a folder cannot replace a folder with files, and must never be visible half deleted
            path.replace(former)
        aside.replace(path)
    finally:
        _restore(former, path)
        _remove(aside)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all."""
    with write_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _restore(former: Path, path: Path) -> None:
    """Rename ``former`` to ``path`` if ``path`` does not exist; otherwise remove it."""
    if former.exists() and not path.exists():
        former.replace(path)
    _remove(former)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
