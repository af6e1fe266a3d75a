"""Files that list images: tables with one row per image, text files, and the paths of imported embeddings.

A table is CSV or Parquet with a column of paths, or Parquet with the images themselves.

That is what Hugging Face's `datasets` writes: ``image: {bytes, path}`` and ``label``, with the classes' names in
the file's description. Further columns may say the domain and the task of each image.
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
from pipeline.datasets.sources.source import Collected, DomainSettings, FoundImages, image_below
from pipeline.errors import InputError, counted, did_you_mean, listed, one_line
from pipeline.image_files.parquet_file import ParquetFile, open_parquet
from pipeline.image_files.read import PARQUET, row_path

IMAGE_COLUMNS = ("image", "path", "file_name")  # the last as in Hugging Face's metadata.csv


class CsvFile:
    """A CSV file in UTF-8, a .tsv with tabs; like a `ParquetFile` it has ``path`` and these:

    ``columns``: kind by name, "image" for the bytes of images, "text" for paths; ``names``: the names of classes or
    domains by column, where rows have numbers in their place; ``rows``: values by column, row after row.
    """

    names: Mapping[str, list[str]] = {}

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self.columns = dict.fromkeys(next(self._lines()), "text")
        require_separator(path, list(self.columns), self.delimiter)

    def rows(self, _columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows by column, all columns."""
        for number, line in enumerate(self._lines(), -1):
            if len(line) != len(self.columns):
                values, columns = counted(len(line), "value"), counted(len(self.columns), "column")
                raise InputError(f"{self.path}: row {number} has {values} for {columns}; mend it")
            if number >= 0:
                yield dict(zip(self.columns, line, strict=True))

    def _lines(self) -> Iterator[Sequence[str]]:
        """Yield the header and the rows; blank lines are left out."""
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
    """Return the images of files with the same columns. Paths start from the folder of the file."""
    collected = Collected(settings)
    classes: dict[str, None] = {}
    for file in files:
        table = TABLES[file.suffix.lower()](file)
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
                # in one line, even if the value is not
                path = image_below(file.parent, text, f"{where}: {' '.join(text.split())}")
            class_name = settings.class_of(row["label"], where, names["label"]) if settings.labelled else ""
            collected.add(path, class_name, row.get("task"), where=where)
        classes |= dict.fromkeys(names.get("label", []))
    return collected.found(files[0], list(classes))


def _columns(table: Table, settings: DomainSettings) -> dict[str, str]:
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


def find_in_npz(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return the ``paths`` of an .npz, DOMAIN/CLASS/FILE, that stand in for absent images; those of this domain."""
    (file,) = files
    paths = read_paths(file)
    if paths is None:
        raise InputError(f"{file}: has no array 'paths'; add one of DOMAIN/CLASS/FILE strings")
    ours = Counter(text for text in paths if is_domain(text.partition("/")[0], settings.domain))
    if not ours:
        domains = sorted({text.partition("/")[0] for text in paths})
        raise InputError(
            f"{file}: paths: none begins with {settings.domain}/ (there are: {listed(domains)}); "
            "the domain's key in suite.yaml must be the DOMAIN of its paths"
        )
    collected = Collected(settings)
    for text, count in ours.items():
        where = f"{file}: paths: {text!r}"
        if count > 1:
            raise InputError(f"{where} is there twice")
        class_name = text.split("/")[1]
        settings.require_known(where, class_name)
        collected.add(Path(text), class_name)
    return collected.found(file, has_bytes=False)


def find_in_list(files: Sequence[Path], settings: DomainSettings) -> FoundImages:
    """Return the images of ``path label`` lines, as VisDA and DomainNet ship them: exactly the listed ones.

    Paths start from the list's folder and may hold spaces; one may be listed twice.
    """
    (file,) = files
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
