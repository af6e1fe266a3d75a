"""Read and write the tables of the stage `manifest`: a domain's images and, separately, their classes.

They are in cache/manifests/DOMAIN, each in its own folder so that stages depend only on what they may read (`embed` and
`adapt` read no labels). Images and labels are aligned row by row. The folder ``tasks`` is written by `task_files`.

=====================  ============================  ==========================================================
``images/images.csv``  path, sha256, width, height   read by `embed`
``labels/labels.csv``  path, class                   read only for tasks, the source, and evaluation
``names/names.csv``    class, task                   the sorted classes; tasks if the source of images has them
``report.json``        counts, duplicates, skipped   for people; not read by any stage
=====================  ============================  ==========================================================

Each CSV file has a digest beside it (`checked_csv`). If the domain is private, images.csv, labels.csv and report.json
are kept outside the cache. If it is unlabelled (`labels: none`), labels.csv has a header and no rows.

The same images give the same bytes. Changing seeds or tasks does not change these files, and therefore not the
embeddings or prompts.
"""

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.checked_csv import (
    POINTER,
    CsvTable,
    is_pointer,
    keeping_private,
    malformed,
    parse_number,
    read_table,
    sha256_of,
    write_table,
    writing_folder,
)
from pipeline.datasets.task_files import CLASSES, read_classes, require_labelled
from pipeline.write_aside import write_json

IMAGES, LABELS, NAMES = Path("images/images.csv"), Path("labels/labels.csv"), Path("names/names.csv")
REPORT = "report.json"

_IMAGE_COLUMNS = ("path", "sha256", "width", "height")
_LABEL_COLUMNS = ("path", "class")
_NAME_COLUMNS = ("class", "task")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ImageRow(NamedTuple):
    """A row of images.csv; width and height are 0 if only the path is known."""

    path: str
    sha256: str
    width: int
    height: int


@dataclass(frozen=True)
class Manifest:
    """A manifest: n images, their classes (empty if the domain is unlabelled), C class names, and the report."""

    images: Sequence[ImageRow]
    labels: Sequence[str]
    class_names: Sequence[str]
    report: dict[str, Any]
    tasks: Sequence[Sequence[str]] | None = None  # the classes of each task, if the source of images has them


def write_manifest(manifest: Manifest, folder: Path, *, private: bool = False) -> None:
    """Write a manifest to cache/manifests/DOMAIN; all files are complete before the first is renamed.

    With ``private``, files that reveal an image's class are kept in private/DOMAIN and replaced by pointers.
    """
    task_of = {name: t + 1 for t, names in enumerate(manifest.tasks or ()) for name in names}
    # labels are empty if the domain is unlabelled
    labels = ((image.path, name) for image, name in zip(manifest.images, manifest.labels, strict=False))
    tables: dict[Path, CsvTable] = {
        IMAGES: (_IMAGE_COLUMNS, manifest.images),
        LABELS: (_LABEL_COLUMNS, labels),
        NAMES: (_NAME_COLUMNS, ((name, task_of.get(name, "")) for name in manifest.class_names)),
    }
    report = manifest.report
    with ExitStack() as stack:
        if private:
            for path in (IMAGES, LABELS):
                private_path = stack.enter_context(keeping_private(folder, path.name))
                write_table(private_path, *tables[path])
                tables[path] = POINTER, [(path.name, sha256_of(private_path))]
            private_path = stack.enter_context(keeping_private(folder, REPORT))
            write_json(private_path, report)
            report = dict(zip(POINTER, (REPORT, sha256_of(private_path)), strict=True))
        for path, table in tables.items():
            stack.enter_context(writing_folder(folder / path.parent, {path.name: table}))
        write_json(folder / REPORT, report)


def is_private(folder: Path) -> bool:
    """Return whether the images and labels of cache/manifests/DOMAIN are private."""
    return is_pointer(folder / IMAGES)


def read_images(folder: Path) -> list[ImageRow]:
    """Read images.csv of cache/manifests/DOMAIN: n rows."""
    return list(iterate_images(folder))


def iterate_images(folder: Path) -> Iterator[ImageRow]:
    """Yield the rows of images.csv; a list of a million rows would take 0.3 GB."""

    def parse(row: list[str]) -> ImageRow:
        if not _SHA256.fullmatch(row[1]):
            raise ValueError(f"{row[1]!r} is not a sha256")
        return ImageRow(row[0], row[1], int(row[2]), int(row[3]))

    yield from read_table(folder / IMAGES, _IMAGE_COLUMNS, parse)[1]


def rows_digest(image_digests: Iterable[str]) -> str:
    """Return a digest that identifies a manifest's rows: the sha256 of the sha256s of the images, in order.

    Stores and labels made for the same rows have the same digest.
    """
    digest = hashlib.sha256()
    for number, image in enumerate(image_digests):
        digest.update(f"\n{image}".encode() if number else image.encode())
    return digest.hexdigest()


def iterate_labelled(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (class, sha256) of every image of cache/manifests/DOMAIN; nothing if the domain is unlabelled."""
    path = folder / LABELS
    _, rows = read_table(path, _LABEL_COLUMNS, list, may_be_empty=True)
    first = next(rows, None)
    if first is None:
        return
    pairs = zip_longest(chain([first], rows), iterate_images(folder))
    for number, (row, image) in enumerate(pairs):
        if row is None or image is None:
            raise malformed(path, f"has {'more' if row else 'fewer'} rows than {IMAGES.name}")
        if row[0] != image.path:
            raise malformed(path, f"row {number} is {row[0]}, in {IMAGES.name} {image.path}")
        yield row[1], image.sha256


def read_labels(folder: Path) -> tuple[NDArray[np.int64], str]:
    """Return the class (n,) of each image, 0 to C - 1 as in classes.csv, and the `rows_digest` of the images.

    The paths in labels.csv must equal those in images.csv. Reading row by row, a million labels take 8 MB.
    """
    require_labelled(folder)
    label_of = {row.class_name: row.label for row in read_classes(folder)}
    labels = array("q")

    def digests() -> Iterator[str]:
        for name, sha256 in iterate_labelled(folder):
            if name not in label_of:
                raise malformed(folder / LABELS, f"{name!r} is not in {CLASSES.name}")
            labels.append(label_of[name])
            yield sha256

    digest = rows_digest(digests())
    return np.array(labels, dtype=np.int64), digest


def read_class_names(folder: Path) -> list[str]:
    """Read the classes of names.csv, sorted."""
    return [name for name, _ in _read_names(folder)]


def read_source_tasks(folder: Path) -> list[list[str]] | None:
    """Read the classes of each task from names.csv, or return None if the source of images has no tasks."""
    names = [(name, task) for name, task in _read_names(folder) if task >= 0]
    return [[name for name, task in names if task == number] for number in sorted({task for _, task in names})] or None


def _read_names(folder: Path) -> Iterator[tuple[str, int]]:
    def parse(row: list[str]) -> tuple[str, int]:
        return row[0], parse_number(row[1], first=1) if row[1] else -1

    return read_table(folder / NAMES, _NAME_COLUMNS, parse)[1]
