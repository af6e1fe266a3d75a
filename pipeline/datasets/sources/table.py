"""Tables with one row per image: CSV or Parquet with a column of paths, and Parquet with the images themselves.

The latter is what Hugging Face's `datasets` writes: ``image: {bytes, path}`` and ``label``, with the classes' names in
the file's description. Further columns may say the domain and the task of each image.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.datasets.sources.source import Collected, DomainSettings, FoundImages, image_below
from pipeline.errors import InputError, did_you_mean, listed, one_line
from pipeline.image_files.parquet_file import ParquetFile, open_parquet
from pipeline.image_files.read import PARQUET, row_path

IMAGE_COLUMNS = ("image", "path", "file_name")  # the last as in Hugging Face's metadata.csv


def find_in_tables(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return the images of files with the same columns. Paths start from the folder of the file."""
    collected = Collected(settings)
    classes: dict[str, None] = {}
    for file in files:
        table = open_parquet(file) if file.suffix.lower() == PARQUET else CsvFile(file)
        column = _columns(table, settings)
        held = table.columns[column["image"]] == "image"
        names = {role: table.names.get(name, []) for role, name in column.items()}
        read = {role: name for role, name in column.items() if role != "image" or not held}
        for number, by_name in enumerate(table.rows(list(dict.fromkeys(read.values())))):
            row, where = {role: by_name[name] for role, name in read.items()}, f"{file}: row {number}"
            if collected.is_other_domain(_domain(row.get("domain"), names.get("domain", []))):
                continue
            if held:
                path = row_path(file, column["image"], number)
            else:
                text = str(row["image"] or "").strip()
                path = image_below(file.parent, text, f"{where}: {text}")
            class_name = settings.class_of(row["label"], where, names["label"]) if settings.labelled else ""
            collected.add(path, class_name, row.get("task"), where=where)
        classes |= dict.fromkeys(names.get("label", []))
    return collected.found(files[0], list(classes))


def _columns(table: ParquetFile | CsvFile, settings: DomainSettings) -> dict[str, str]:
    """Return the columns of a table by what they say: image, label, domain and task, those that are there."""
    usual = next((name for name in IMAGE_COLUMNS if name in table.columns), IMAGE_COLUMNS[0])
    column = {"image": settings.columns.get("image", usual)}
    if settings.labelled:
        column["label"] = settings.column("label")
    for role in ("domain", "task"):
        name = settings.column(role)
        if name in table.columns or (name and role in settings.columns):
            column[role] = name
    for role, name in column.items():
        if name not in table.columns:
            raise InputError(
                f"{table.path}: has no column {name!r}{did_you_mean(name, table.columns)} "
                f"(name it in datasets.*.columns.{role})"
            )
    if table.columns[column["image"]] not in ("image", "text"):
        held = [name for name, kind in table.columns.items() if kind == "image"]
        raise InputError(
            f"{table.path}: column {column['image']!r} holds neither images nor paths (columns of images: "
            f"{listed(held) or 'none'}); name another in datasets.*.columns.image"
        )
    return column


def _domain(value: object, names: Sequence[str]) -> object:
    """Return what a row says of its image's domain, by name; None if nothing."""
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


class CsvFile:
    """A CSV file in UTF-8 (a .tsv with tabs), with the attributes and `rows` of a `ParquetFile`."""

    names: Mapping[str, list[str]] = {}

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns = dict.fromkeys(next(self._lines()), "text")

    def rows(self, _columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows by column, all columns."""
        for number, line in enumerate(self._lines(), -1):
            if len(line) != len(self.columns):
                raise InputError(
                    f"{self.path}: row {number} has {len(line)} values for {len(self.columns)} columns; mend it"
                )
            if number >= 0:
                yield dict(zip(self.columns, line, strict=True))

    def _lines(self) -> Iterator[Sequence[str]]:
        """Yield the header and the rows; blank lines are left out."""
        delimiter = "\t" if self.path.suffix.lower() == ".tsv" else ","
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as opened:
                lines = (line for line in csv.reader(opened, delimiter=delimiter, strict=True) if line)
                yield next(lines, [])
                yield from lines
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: not a CSV file in UTF-8 ({one_line(error)})") from None
