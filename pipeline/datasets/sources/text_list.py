"""A text file of ``path label`` lines, as VisDA and DomainNet ship them: exactly the listed images."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from pipeline.datasets.sources.source import Collected, DomainSettings, FoundImages, image_below
from pipeline.errors import InputError


def find_in_list(file: Path, settings: DomainSettings) -> FoundImages:
    """Return the listed images. Paths start from the list's folder and may hold spaces; one may be listed twice."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file (UTF-8)") from None
    collected = Collected(settings)
    # not splitlines(): it also splits at characters that may stand in a file name
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        where = f"{file}: line {number}"
        parsed = re.fullmatch(r"(.*\S) +([0-9]{1,9})", line.strip())
        if parsed:
            where = f"{where}: {parsed[1]}"
            path = image_below(file.parent, parsed[1], where)
            class_name = _class_of(parsed[1], int(parsed[2]), where, settings) if settings.labelled else ""
            collected.add(path, class_name, where=where)
        elif line.strip():
            raise InputError(f"{where}: must read 'path label' with a whole number as label: {line.strip()!r}")
    found = collected.found(file)
    if not found.images:
        raise InputError(f"{file}: the image list is empty")
    return found


def _class_of(path: str, label: int, where: str, settings: DomainSettings) -> str:
    """Return the class of a listed image: its parent folder where that is one, else by its number.

    The folder goes first because DomainNet numbers its classes in an order of its own (capitals and hyphens
    ignored); the number is for folders that are no classes: VisDA's ``test/trunc07``.
    """
    by_number = settings.class_of(label, where) if settings.class_names else ""
    parent = PurePosixPath(path).parent.name
    if settings.class_names and parent not in settings.class_names:
        return by_number
    if not parent:
        raise InputError(
            f"{where}: has no class folder; name the classes in datasets.*.class_names, in the order of the "
            "list's labels"
        )
    return parent
