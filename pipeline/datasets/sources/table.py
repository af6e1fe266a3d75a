"""Tables with one row per image: CSV or Parquet with a column of paths, and Parquet with the images themselves.

The latter is what Hugging Face's `datasets` writes: ``image: {bytes, path}`` and ``label``, with the classes' names in
the file's description. Further columns may say the domain and the task of each image.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pipeline.datasets.sources.source import (
    ANY_DOMAIN,
    Collected,
    DomainSettings,
    FoundImages,
    image_below,
    relative_path,
)
from pipeline.errors import InputError, did_you_mean, listed, one_line
from pipeline.image_files.parquet_file import open_parquet
from pipeline.image_files.read import PARQUET, row_path

IMAGE_COLUMNS = ("image", "path", "file_name")  # the last as in Hugging Face's metadata.csv


@dataclass(frozen=True)
class Table:
    """One or more files with the same columns. Paths start from the folder of the file; images are not read."""

    files: tuple[Path, ...]
    settings: DomainSettings = ANY_DOMAIN
    has_bytes: ClassVar[bool] = True

    def find(self) -> FoundImages:
        """Return the images; see `ImageSource`."""
        collected = Collected(self.settings)
        classes: dict[str, None] = {}
        for file in self.files:
            columns = Columns(file, self.settings)
            for number, row in enumerate(columns.rows()):
                where = f"{file}: row {number}"
                if not collected.is_other_domain(columns.domain(row)):
                    path = columns.path(row, number, where)
                    task = row.get(columns.roles.get("task", ""))
                    collected.add(path, columns.class_of(row, where), task, where=where)
            classes |= dict.fromkeys(columns.classes)
        return collected.found(self.files[0], list(classes))


@dataclass(frozen=True)
class Columns:
    """The columns of a file that say where an image is, its label, domain and task."""

    file: Path
    settings: DomainSettings

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The columns and what they hold: ``image``, ``text``, ``number`` or ``other``; ``text`` in a CSV file."""
        if self.file.suffix.lower() == PARQUET:
            return open_parquet(self.file).columns
        return dict.fromkeys(next(_csv_lines(self.file)), "text")

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """For columns of numbers, what the numbers mean, where the file says it."""
        return open_parquet(self.file).names if self.file.suffix.lower() == PARQUET else {}

    @cached_property
    def image(self) -> str:
        """The column of images or of their paths."""
        usual = next((name for name in IMAGE_COLUMNS if name in self.kinds), IMAGE_COLUMNS[0])
        name = self._require("image", self.settings.columns.get("image", usual))
        if self.kinds[name] not in ("image", "text"):
            held = [name for name, kind in self.kinds.items() if kind == "image"]
            raise InputError(
                f"{self.file}: column {name!r} holds neither images nor paths (columns of images: "
                f"{listed(held) or 'none'}); name another in datasets.*.columns.image"
            )
        return name

    @cached_property
    def roles(self) -> dict[str, str]:
        """The columns of label, domain and task, those that are there."""
        found = {}
        if self.settings.labelled:
            found["label"] = self._require("label", self.settings.column("label"))
        for role in ("domain", "task"):
            name = self.settings.column(role)
            if name in self.kinds:
                found[role] = name
            elif name and role in self.settings.columns:
                self._require(role, name)
        return found

    @cached_property
    def classes(self) -> list[str]:
        """The names of the classes by number, where the file says them."""
        return self.names.get(self.roles.get("label", ""), [])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, by column; without the images."""
        paths = [self.image] if self.kinds[self.image] == "text" else []
        columns = list(dict.fromkeys([*paths, *self.roles.values()]))
        if self.file.suffix.lower() == PARQUET:
            for row in open_parquet(self.file).rows(columns):
                yield dict(zip(columns, row, strict=True))
            return
        for number, line in enumerate(_csv_lines(self.file), -1):
            if len(line) != len(self.kinds):
                raise InputError(
                    f"{self.file}: row {number} has {len(line)} values for {len(self.kinds)} columns; mend it"
                )
            if number >= 0:
                yield dict(zip(self.kinds, line, strict=True))

    def path(self, row: dict[str, Any], number: int, where: str) -> Path:
        """Return the path of a row's image."""
        if self.kinds[self.image] == "image":
            return row_path(self.file, self.image, number)
        text = str(row[self.image] or "").strip()
        where = f"{where}: {text}"
        return image_below(self.file.parent, relative_path(text, where), where)

    def domain(self, row: dict[str, Any]) -> object:
        """Return what a row says of its image's domain, None if nothing."""
        column = self.roles.get("domain", "")
        value, names = row.get(column), self.names.get(column, [])
        if isinstance(value, int) and 0 <= value < len(names):
            return names[value]
        return value

    def class_of(self, row: dict[str, Any], where: str) -> str:
        """Return the class of a row's image; "" of a domain without labels."""
        if not self.settings.labelled:
            return ""
        return self.settings.class_of(row[self.roles["label"]], where, self.classes)

    def _require(self, role: str, name: str) -> str:
        if name not in self.kinds:
            raise InputError(
                f"{self.file}: has no column {name!r}{did_you_mean(name, self.kinds)} "
                f"(name it in datasets.*.columns.{role})"
            )
        return name


def _csv_lines(file: Path) -> Iterator[Sequence[str]]:
    """Yield the header of a CSV file (a .tsv with tabs) and its rows; blank lines are left out."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
            lines = (line for line in csv.reader(opened, delimiter=delimiter, strict=True) if line)
            yield next(lines, [])
            yield from lines
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a CSV file in UTF-8 ({one_line(error)})") from None
