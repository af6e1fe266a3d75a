"""Image lists: text files of ``path label`` lines, as VisDA and DomainNet ship them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pipeline.errors import InputError

_LABEL = re.compile(r"[0-9]{1,9}")


class ListEntry(NamedTuple):
    """One line: its number, the image's path relative to the list's root, the class number."""

    line: int
    path: PurePosixPath
    label: int


def read_image_list(file: Path) -> list[ListEntry]:
    """Parse a list. Paths may hold spaces; blank lines and Windows line ends are fine."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(
            f"{file}: no such image list; download it, or correct lists.*.file in suite.yaml"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file (UTF-8)") from None
    # not splitlines(): it also splits at characters that may stand in a file name
    lines = text.replace("\r\n", "\n").split("\n")
    entries = [_entry(file, n, line.strip()) for n, line in enumerate(lines, 1) if line.strip()]
    if not entries:
        raise InputError(f"{file}: the image list is empty")
    return entries


def _entry(file: Path, number: int, line: str) -> ListEntry:
    where = f"{file}: line {number}"
    path_text, _, label = line.rpartition(" ")
    path_text = path_text.strip()
    if not path_text or not _LABEL.fullmatch(label):
        raise InputError(f"{where}: must read 'path label' with a whole number as label: {line!r}")
    path = PurePosixPath(path_text)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{where}: {path_text}: leaves the folder that the list is about")
    return ListEntry(number, path, int(label))
