"""A text file of ``path label`` lines, as VisDA and DomainNet ship them: exactly the listed images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

from pipeline.datasets.sources.source import (
    ANY_DOMAIN,
    Collected,
    DomainSettings,
    FoundImages,
    image_below,
    relative_path,
)
from pipeline.errors import InputError

_LABEL = re.compile(r"[0-9]{1,9}")


class ListEntry(NamedTuple):
    """One line: file and number for messages, the image's path from the list's folder, the class number."""

    where: str
    path: PurePosixPath
    label: int


@dataclass(frozen=True)
class TextList:
    """A list, whose paths start from its folder. An image may be listed twice, in the same class."""

    file: Path
    settings: DomainSettings = ANY_DOMAIN
    has_bytes: ClassVar[bool] = True

    def find(self) -> FoundImages:
        """Return the images; see `ImageSource`."""
        collected = Collected(self.settings)
        for entry in read_image_list(self.file):
            path = image_below(self.file.parent, entry.path, entry.where)
            class_name = self._class_of(entry) if self.settings.labelled else ""
            collected.add(path, class_name, where=entry.where)
        return collected.found(self.file)

    def _class_of(self, entry: ListEntry) -> str:
        """Return the class of a listed image: its parent folder where that is one, else by its number.

        The folder goes first because DomainNet numbers its classes in an order of its own (capitals and hyphens
        ignored); the number is for folders that are no classes: VisDA's ``test/trunc07``.
        """
        class_names = self.settings.class_names
        by_number = self.settings.class_of(entry.label, entry.where) if class_names else ""
        parent = entry.path.parent.name
        if class_names and parent not in class_names:
            return by_number
        if not parent:
            raise InputError(
                f"{entry.where}: has no class folder; name the classes in datasets.*.class_names, "
                "in the order of the list's labels"
            )
        return parent


def read_image_list(file: Path) -> list[ListEntry]:
    """Parse a list. Paths may hold spaces; blank lines and Windows line ends are fine."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file (UTF-8)") from None
    entries = list(_entries(file, text))
    if not entries:
        raise InputError(f"{file}: the image list is empty")
    return entries


def _entries(file: Path, text: str) -> Iterator[ListEntry]:
    # not splitlines(): it also splits at characters that may stand in a file name
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        path, _, label = line.strip().rpartition(" ")
        where = f"{file}: line {number}"
        if path.strip() and _LABEL.fullmatch(label):
            where = f"{where}: {path.strip()}"
            yield ListEntry(where, relative_path(path.strip(), where), int(label))
        elif line.strip():
            raise InputError(f"{where}: must read 'path label' with a whole number as label: {line.strip()!r}")
