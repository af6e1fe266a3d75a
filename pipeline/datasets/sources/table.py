"""Find images in files that list them: tables, text files, and the paths of imported embeddings.

A table has one row per image. It is CSV or Parquet with a column of paths, or Parquet with the images themselves as
written by Hugging Face's `datasets`: ``image: {bytes, path}`` and ``label``, with class names in the file's metadata.
Further columns may give the domain and the task of each image.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.array_files import is_domain, read_paths
from pipeline.datasets.checked_csv import require_separator
from pipeline.datasets.sources.source import DomainSettings, FoundImages, ImageCollector, image_below
from pipeline.errors import InputError, counted, did_you_mean, listed, one_line
from pipeline.image_files.parquet_file import ColumnKind, ParquetFile, open_parquet
from pipeline.image_files.read import PARQUET, row_path

IMAGE_COLUMNS = ("image", "path", "file_name")  # file_name: Hugging Face's metadata.csv


class CsvFile:
    """A CSV file in UTF-8, tab-separated if its suffix is .tsv, with the same interface as `ParquetFile`.

    ``columns`` has the kind of each column, here always "text". ``names`` has the names of classes or domains by column
    of numbers; it is always empty here, because only Parquet files name their numeric labels.
    """

    names: Mapping[str, list[str]] = {}

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self.columns: dict[str, ColumnKind] = dict.fromkeys(next(self._lines()), "text")
        require_separator(path, list(self.columns), self.delimiter)

    def rows(self, _columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield each row as {column: value}, with all columns."""
        for number, line in enumerate(self._lines(), -1):
            if len(line) != len(self.columns):
                values, columns = counted(len(line), "value"), counted(len(self.columns), "column")
                raise InputError(f"{self.path}: row {number} has {values} for {columns}; correct it")
            if number >= 0:
                yield dict(zip(self.columns, line, strict=True))

    def _lines(self) -> Iterator[Sequence[str]]:
        """Yield the header and the rows, without blank lines."""
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as opened:
                lines = (line for line in csv.reader(opened, delimiter=self.delimiter, strict=True) if line)
                yield next(lines, [])
                yield from lines
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: not a CSV file in UTF-8 ({one_line(error)})") from None


Table = CsvFile | ParquetFile
TABLES: dict[str, Callable[[Path], Table]] = {".csv": CsvFile, ".tsv": CsvFile, PARQUET: open_parquet}


def find_in_tables(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return the images in files with the same columns. Paths are relative to the folder of the file."""
    collector = ImageCollector(settings)
    classes: dict[str, None] = {}
    for file in files:
        table = TABLES[file.suffix.lower()](file)
        columns = _columns(table, settings)
        has_bytes = table.columns[columns["image"]] == "image"
        names = {role: table.names.get(name, []) for role, name in columns.items()}
        roles = {role: name for role, name in columns.items() if role != "image" or not has_bytes}
        for number, values in enumerate(table.rows(list(dict.fromkeys(roles.values())))):
            row, where = {role: values[name] for role, name in roles.items()}, f"{file}: row {number}"
            if collector.is_other_domain(_domain(row.get("domain"), names.get("domain", []))):
                continue
            if has_bytes:
                path = row_path(file, columns["image"], number)
            else:
                text = str(row["image"] or "").strip()
                # keep the message in one line, even if the value has line breaks
                path = image_below(file.parent, text, f"{where}: {' '.join(text.split())}")
            class_name = settings.class_of(row["label"], where, names["label"]) if settings.labelled else ""
            collector.add(path, class_name, row.get("task"), where=where)
        classes |= dict.fromkeys(names.get("label", []))
    return collector.result(files[0], list(classes))


def _columns(table: Table, settings: DomainSettings) -> dict[str, str]:
    """Return a table's columns by role: image, label if needed, domain and task if present."""
    default = next((name for name in IMAGE_COLUMNS if name in table.columns), IMAGE_COLUMNS[0])
    columns = {"image": settings.columns.get("image", default)}
    if settings.labelled:
        columns["label"] = settings.column("label")
    for role in ("domain", "task"):
        name = settings.column(role)
        if name in table.columns or (name and role in settings.columns):
            columns[role] = name
    for role, name in columns.items():
        if name not in table.columns:
            raise InputError(
                f"{table.path}: has no column {name!r}{did_you_mean(name, table.columns)} "
                f"(name it in datasets.*.columns.{role})"
            )
    if table.columns[columns["image"]] not in ("image", "text"):
        image_columns = [name for name, kind in table.columns.items() if kind == "image"]
        raise InputError(
            f"{table.path}: column {columns['image']!r} has neither images nor paths (columns of images: "
            f"{listed(image_columns) or 'none'}); name another in datasets.*.columns.image"
        )
    return columns


def _domain(value: object, names: Sequence[str]) -> object:
    """Return the name of a row's domain, given its name or number; None if the row has no domain."""
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def find_in_npz(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return this domain's ``paths`` (DOMAIN/CLASS/FILE) in an .npz, in place of images that are absent."""
    (file,) = files
    paths = read_paths(file)
    if paths is None:
        raise InputError(f"{file}: has no array 'paths'; add one of DOMAIN/CLASS/FILE strings")
    counts = Counter(text for text in paths if is_domain(text.partition("/")[0], settings.domain))
    if not counts:
        domains = sorted({text.partition("/")[0] for text in paths})
        raise InputError(
            f"{file}: paths: none begins with {settings.domain}/ (found: {listed(domains)}); "
            "the domain's key in suite.yaml must be the DOMAIN of its paths"
        )
    collector = ImageCollector(settings)
    for text, count in counts.items():
        where = f"{file}: paths: {text!r}"
        if count > 1:
            raise InputError(f"{where} is listed twice")
        class_name = text.split("/")[1]
        settings.require_known(where, class_name)
        collector.add(Path(text), class_name)
    return collector.result(file, has_bytes=False)


def find_in_list(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return the images listed in lines ``path label``, the format of VisDA and DomainNet.

    Paths are relative to the list's folder and may contain spaces. The same path may be listed twice.
    """
    (file,) = files
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file (UTF-8)") from None
    collector = ImageCollector(settings)
    # not splitlines(), which also splits at characters that are allowed in file names
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        where = f"{file}: line {number}"
        parsed = re.fullmatch(r"(.*\S) +([0-9]{1,9})", line.strip())
        if parsed:
            where = f"{where}: {parsed[1]}"
            path = image_below(file.parent, parsed[1], where)
            class_name = _class_of(parsed[1], int(parsed[2]), where, settings) if settings.labelled else ""
            collector.add(path, class_name, where=where)
        elif line.strip():
            raise InputError(f"{where}: must read 'path label' with a whole number as label: {line.strip()!r}")
    found = collector.result(file)
    if not found.images:
        raise InputError(f"{file}: the image list is empty")
    return found


def _class_of(path: str, label: int, where: str, settings: DomainSettings) -> str:
    """Return the class of a listed image: its parent folder if that is a class, otherwise by its number.

    The folder takes precedence because DomainNet numbers its classes in a different order (ignoring capitals and
    hyphens). The number is for folders that are not classes, as VisDA's ``test/trunc07``.
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
