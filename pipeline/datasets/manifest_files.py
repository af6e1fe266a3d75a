"""The files of a manifest: a domain's images, one row each, and apart from them tasks and labels.

In cache/manifests/DOMAIN; images, tasks and labels are aligned row by row, sorted by path:

===============  =============================  ==================================================
``images.csv``   path, sha256, width, height    all that `embed` reads
``tasks.csv``    row, task, seed_0, seed_1, …   train or test per seed; no way to a label from here
``classes.csv``  label, class, task             label = index in the sorted class names
``labels.csv``   path, class, label             for the source, and for evaluation alone
``report.json``  counts, duplicates, skipped    for people
===============  =============================  ==================================================

Every row of the CSV files ends with a column ``crc32c`` over its number and its fields, and of the last row over the
word that it is the last: a flipped bit, a lost, doubled or moved line is noticed before a number of it is used. A file
without that column (made by hand, or before there was one) is read as it is.

Of a private domain the first, the fourth and the last are kept elsewhere: see `private_files`.

A change of seeds or tasks leaves images.csv, hence all embeddings, as they are. The same images
give the same bytes.
"""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import private_files
from pipeline.errors import StoreError
from pipeline.write_aside import write_aside

IMAGES, TASKS, CLASSES, LABELS = "images.csv", "tasks.csv", "classes.csv", "labels.csv"
REPORT = "report.json"
MOST_TASKS = 2**31  # and classes: a bound on what a damaged number may ask for
KEPT_PRIVATE = (IMAGES, LABELS, REPORT)  # of a private domain

_SIDES = {"train": False, "test": True}
_SEED = "seed_"
CRC = "crc32c"

Row = TypeVar("Row")


class ImageRow(NamedTuple):
    """A row of images.csv."""

    path: str
    sha256: str
    width: int
    height: int


class ClassRow(NamedTuple):
    """A row of classes.csv."""

    label: int
    class_name: str
    task: int


class LabelRow(NamedTuple):
    """A row of labels.csv."""

    path: str
    class_name: str
    label: int


@dataclass(frozen=True)
class Tasks:
    """tasks.csv: the task (n,) of each image, and per seed (n, S) whether it is a test image."""

    task: NDArray[np.int64]
    seeds: tuple[int, ...]
    test: NDArray[np.bool_]

    def is_test(self, seed: int) -> NDArray[np.bool_]:
        """Return the (n,) mask of the test images of ``seed``; the others are train images."""
        mask: NDArray[np.bool_] = self.test[:, self.seeds.index(seed)]
        return mask


@dataclass(frozen=True)
class Manifest:
    """A whole manifest: n images, tasks and labels; C classes."""

    images: tuple[ImageRow, ...]
    tasks: Tasks
    classes: tuple[ClassRow, ...]
    labels: tuple[LabelRow, ...]
    report: dict[str, Any]


def write(manifest: Manifest, folder: Path, *, private: bool = False) -> None:
    """Write the five files into ``folder``: all are whole before the first is put in its place.

    Where ``private``, those that tell an image's class are kept apart, and pointers to them are written.
    """
    tasks = manifest.tasks
    sides = np.where(tasks.test, "test", "train")
    with ExitStack() as stack:
        aside = {
            name: stack.enter_context(write_aside(folder / name))
            for name in (IMAGES, TASKS, CLASSES, LABELS, REPORT)
        }
        pointers = {name: aside[name] for name in KEPT_PRIVATE if private}
        for name in pointers:  # last in, so first in place
            aside[name] = stack.enter_context(write_aside(private_files.kept_at(folder / name)))
        _write_csv(aside[IMAGES], ("path", "sha256", "width", "height"), manifest.images)
        _write_csv(
            aside[TASKS],
            ("row", "task", *(f"{_SEED}{seed}" for seed in tasks.seeds)),
            ((row, tasks.task[row], *sides[row]) for row in range(len(tasks.task))),
        )
        _write_csv(aside[CLASSES], ("label", "class", "task"), manifest.classes)
        _write_csv(aside[LABELS], ("path", "class", "label"), manifest.labels)
        text = json.dumps(manifest.report, indent=2, ensure_ascii=False) + "\n"
        aside[REPORT].write_text(text, encoding="utf-8", newline="\n")
        for name, place in pointers.items():
            text = private_files.pointer(name, aside[name].read_bytes())
            place.write_text(text, encoding="utf-8", newline="\n")


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*header, CRC))
        for number, last, fields in _numbered([str(value) for value in row] for row in rows):
            writer.writerow((*fields, _crc(header, number, fields, last=last)))


def _numbered(rows: Iterable[list[str]]) -> Iterator[tuple[int, bool, list[str]]]:
    """Yield the number of each row, whether it is the last, and its fields."""
    held: list[str] | None = None
    number = -1
    for number, row in enumerate(rows):
        if held is not None:
            yield number - 1, False, held
        held = row
    if held is not None:
        yield number, True, held


def _crc(header: Sequence[str], number: int, fields: Sequence[str], *, last: bool) -> str:
    """Return the checksum of a row; the first one answers for the header as well."""
    place = f"{number}{' last' if last else ''}"
    text = "\x1f".join((place, *(header if number == 0 else ()), *fields))
    return f"{google_crc32c.value(text.encode()):08x}"


def read_images(path: Path) -> list[ImageRow]:
    """Read images.csv: n rows."""
    return list(iterate_images(path))


def iterate_images(path: Path) -> Iterator[ImageRow]:
    """Yield the rows of images.csv, one at a time: a million of them take a third of a gigabyte."""
    return _rows_of(
        path,
        ("path", "sha256", "width", "height"),
        lambda row: ImageRow(row[0], _sha256(row[1]), int(row[2]), int(row[3])),
    )


def read_tasks(path: Path, *, rows: int | None = None) -> Tasks:
    """Read tasks.csv, which must have ``rows`` rows (where given): those of images.csv."""
    lines = _read_csv(path)
    header = next(lines)
    seeds = header[2:]
    if header[:2] != ["row", "task"] or not seeds or not all(_is_seed(name) for name in seeds):
        raise _broken(path, f"has the columns {','.join(header)}, not row,task,seed_…")
    task, test = array("q"), bytearray()
    for number, (row, of_task, sides) in enumerate(
        _parsed(
            path,
            len(header),
            lines,
            lambda row: (int(row[0]), int(row[1]), [_SIDES[side] for side in row[2:]]),
        )
    ):
        if row != number:
            raise _broken(path, "its rows are not numbered 0, 1, 2, …")
        if not 0 <= of_task < MOST_TASKS:
            raise _broken(path, f"row {number} is of task {of_task}")
        task.append(of_task)
        test.extend(sides)
    _expect_rows(path, len(task), rows)
    return Tasks(
        task=np.array(task, dtype=np.int64),
        seeds=tuple(int(name.removeprefix(_SEED)) for name in seeds),
        test=np.array(test, dtype=np.bool_).reshape(len(task), len(seeds)),
    )


def read_labels(path: Path, *, images: Sequence[ImageRow] | None = None) -> list[LabelRow]:
    """Read labels.csv, whose paths must be those of ``images`` (where given)."""
    labels = list(iterate_labels(path))
    if images is not None:
        _expect_rows(path, len(labels), len(images))
        list(_of_images(path, labels, images))
    return labels


def iterate_labels(path: Path, *, images: Iterable[ImageRow] | None = None) -> Iterator[LabelRow]:
    """Yield the rows of labels.csv, whose paths must be those of ``images`` (where given), one at a time."""
    labels = _rows_of(
        path,
        ("path", "class", "label"),
        lambda row: LabelRow(row[0], row[1], _natural(row[2])),
    )
    return labels if images is None else _of_images(path, labels, images)


def _of_images(
    path: Path, labels: Iterable[LabelRow], images: Iterable[ImageRow]
) -> Iterator[LabelRow]:
    """Yield ``labels`` as long as they are those of ``images``."""
    for number, (label, image) in enumerate(zip_longest(labels, images)):
        if label is None or image is None:
            raise _broken(path, f"has {'fewer' if label is None else 'more'} rows than {IMAGES}")
        if label.path != image.path:
            raise _broken(
                path, f"row {number} is {label.path}, but {IMAGES} has {image.path} there"
            )
        yield label


def read_classes(path: Path) -> list[ClassRow]:
    """Read classes.csv: the C classes in the order of the labels, and their tasks."""
    classes = list(
        _rows_of(
            path,
            ("label", "class", "task"),
            lambda row: ClassRow(int(row[0]), row[1], _natural(row[2])),
        )
    )
    if [row.label for row in classes] != list(range(len(classes))):
        raise _broken(path, "its labels are not 0, 1, 2, …")
    tasks = sorted({row.task for row in classes})
    if tasks != list(range(len(tasks))) or [row.task for row in classes] != sorted(
        row.task for row in classes
    ):
        raise _broken(path, "its tasks are not 0, 1, 2, … in order")
    return classes


def _rows_of(
    path: Path, columns: tuple[str, ...], parse: Callable[[list[str]], Row]
) -> Iterator[Row]:
    lines = _read_csv(path)
    _expect(path, next(lines), columns)
    yield from _parsed(path, len(columns), lines, parse)


def _read_csv(path: Path) -> Iterator[list[str]]:
    """Yield the header and then the rows, checked against their checksums, which are left out."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            if private_files.is_pointer_header(header):
                yield from _read_csv(private_files.followed(path, next(lines, [])))
                return
            sealed = header[-1:] == [CRC]
            yield header[:-1] if sealed else header
            count = 0
            for number, last, row in _numbered(lines):
                right = not sealed or (
                    len(row) == len(header)
                    and row[-1] == _crc(header[:-1], number, row[:-1], last=last)
                )
                if not right:
                    raise _broken(path, f"row {number} is damaged (the checksum is wrong)")
                yield row[:-1] if sealed else row
                count += 1
    except FileNotFoundError:
        raise _missing(path) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise _broken(path, f"is not CSV: {error}") from None
    except OSError as error:
        raise _broken(path, f"cannot be read ({error.strerror})") from None
    if not count:
        raise _broken(path, "has no rows")


def _parsed(
    path: Path, width: int, rows: Iterable[list[str]], parse: Callable[[list[str]], Row]
) -> Iterator[Row]:
    for number, row in enumerate(rows):
        if len(row) != width:
            raise _broken(path, f"row {number} has {len(row)} fields, not {width}")
        try:
            yield parse(row)
        except (ValueError, KeyError) as error:
            raise _broken(path, f"row {number} is malformed ({error})") from None


def _natural(text: str) -> int:
    number = int(text)
    if not 0 <= number < MOST_TASKS:
        raise ValueError(f"{text!r} is no number of a class or task")
    return number


def _sha256(text: str) -> str:
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ValueError(f"{text!r} is not a sha256")
    return text


def _is_seed(name: str) -> bool:
    return re.fullmatch(rf"{_SEED}[0-9]{{1,18}}", name) is not None


def _expect(path: Path, header: list[str], columns: tuple[str, ...]) -> None:
    if tuple(header) != columns:
        raise _broken(path, f"has the columns {','.join(header)}, not {','.join(columns)}")


def _expect_rows(path: Path, has: int, rows: int | None) -> None:
    if rows is not None and has != rows:
        raise _broken(path, f"has {has} rows, but {IMAGES} has {rows}")


def _missing(path: Path) -> StoreError:
    return StoreError(f"{path}: no such file; {_remedy(path)}")


def _broken(path: Path, what: str) -> StoreError:
    return StoreError(f"{path}: {what}; {_remedy(path)}")


def _remedy(path: Path) -> str:
    return f"make it anew: dvc repro --force manifest@{path.parent.name}"
