"""The tables of the stage `manifest`: a domain's images, one row each, and apart from them their classes.

In cache/manifests/DOMAIN, each in a folder of its own because not everybody may read all (`embed` and `adapt` read no
labels); images and labels are aligned row by row. `task_files` are in the folder ``tasks`` beside them.

=====================  ============================  ==========================================================
``images/images.csv``  path, sha256, width, height   all that `embed` reads
``labels/labels.csv``  path, class                   for tasks, for the source, and for evaluation alone
``names/names.csv``    class, task                   the classes, sorted; tasks where the source of images has them
``report.json``        counts, duplicates, skipped   for people; no stage reads it
=====================  ============================  ==========================================================

Beside each CSV file stands its digest (`checked_csv`). Of a private domain images.csv, labels.csv and report.json are
kept outside the cache. Of an unlabelled domain (`labels: none`), labels.csv has a header and no rows.

A change of seeds or tasks leaves these files, hence all embeddings and prompts, as they are. The same images give the
same bytes.
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
    number_of,
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
    """A row of images.csv; width and height are 0 where only the path is known."""

    path: str
    sha256: str
    width: int
    height: int


@dataclass(frozen=True)
class Manifest:
    """What `manifest` writes: n images, the class of each (none of an unlabelled domain), C class names, the report."""

    images: Sequence[ImageRow]
    labels: Sequence[str]
    class_names: Sequence[str]
    report: dict[str, Any]
    tasks: Sequence[Sequence[str]] | None = None  # the classes of each, where the source of images says them


def write_manifest(manifest: Manifest, folder: Path, *, private: bool = False) -> None:
    """Write what `manifest` writes to cache/manifests/DOMAIN; all are whole before the first is renamed.

    ``private`` keeps the files that tell an image's class in private/DOMAIN and writes pointers to them.
    """
    task_of = {name: t + 1 for t, names in enumerate(manifest.tasks or ()) for name in names}
    # a domain without labels has images and no rows of labels
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
                kept = stack.enter_context(keeping_private(folder, path.name))
                write_table(kept, *tables[path])
                tables[path] = POINTER, [(path.name, sha256_of(kept))]
            kept = stack.enter_context(keeping_private(folder, REPORT))
            write_json(kept, report)
            report = dict(zip(POINTER, (REPORT, sha256_of(kept)), strict=True))
        for path, table in tables.items():
            stack.enter_context(writing_folder(folder / path.parent, {path.name: table}))
        write_json(folder / REPORT, report)


def is_private(folder: Path) -> bool:
    """Tell whether images and labels of cache/manifests/DOMAIN are kept private."""
    return is_pointer(folder / IMAGES)


def read_images(folder: Path) -> list[ImageRow]:
    """Read images.csv of cache/manifests/DOMAIN: n rows."""
    return list(iterate_images(folder))


def iterate_images(folder: Path) -> Iterator[ImageRow]:
    """Yield the rows of images.csv, one at a time: a million of them in a list take 0.3 GB."""

    def parse(row: list[str]) -> ImageRow:
        if not _SHA256.fullmatch(row[1]):
            raise ValueError(f"{row[1]!r} is not a sha256")
        return ImageRow(row[0], row[1], int(row[2]), int(row[3]))

    yield from read_table(folder / IMAGES, _IMAGE_COLUMNS, parse)[1]


def rows_digest(image_digests: Iterable[str]) -> str:
    """Return the identity of a manifest's rows: the sha256 of the sha256 of each image, in their order.

    Stores and labels made for the same rows carry the same one.
    """
    digest = hashlib.sha256()
    for number, image in enumerate(image_digests):
        digest.update(f"\n{image}".encode() if number else image.encode())
    return digest.hexdigest()


def iterate_labelled(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield class and sha256 of every image of cache/manifests/DOMAIN; nothing for a domain without labels."""
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

    The paths in labels.csv must be those in images.csv. Read row by row: a million take 8 MB.
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
    """Read the classes of each task from names.csv, where the source of the images says them."""
    names = [(name, task) for name, task in _read_names(folder) if task >= 0]
    return [[name for name, task in names if task == number] for number in sorted({task for _, task in names})] or None


def _read_names(folder: Path) -> Iterator[tuple[str, int]]:
    def parse(row: list[str]) -> tuple[str, int]:
        return row[0], number_of(row[1], first=1) if row[1] else -1

    return read_table(folder / NAMES, _NAME_COLUMNS, parse)[1]
