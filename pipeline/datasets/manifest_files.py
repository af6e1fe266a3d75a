"""The files of a manifest: a domain's images, one row each, and apart from them tasks and labels.

In cache/manifests/DOMAIN; images, tasks and labels are aligned row by row, sorted by path:

===============  =============================  ==================================================
``images.csv``   path, sha256, width, height    all that `embed` reads
``tasks.csv``    row, task, seed_0, seed_1, …   train or test per seed; no way to a label from here
``classes.csv``  label, class, task             label = index in the sorted class names
``labels.csv``   path, class, label             for the source, and for evaluation alone
``report.json``  counts, duplicates, skipped    for people
===============  =============================  ==================================================

Of a private domain the first, the fourth and the last are kept elsewhere: see `private_files`.

A change of seeds or tasks leaves images.csv, hence all embeddings, as they are. The same images
give the same bytes.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import private_files
from pipeline.errors import StoreError
from pipeline.write_aside import write_aside

IMAGES, TASKS, CLASSES, LABELS = "images.csv", "tasks.csv", "classes.csv", "labels.csv"
REPORT = "report.json"
KEPT_PRIVATE = (IMAGES, LABELS, REPORT)  # of a private domain

_SIDES = {"train": False, "test": True}
_SEED = "seed_"

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
        writer.writerow(header)
        writer.writerows(rows)


def read_images(path: Path) -> list[ImageRow]:
    """Read images.csv: n rows."""
    header, rows = _read_csv(path)
    _expect(path, header, ("path", "sha256", "width", "height"))
    return _parsed(
        path,
        len(header),
        rows,
        lambda row: ImageRow(row[0], _sha256(row[1]), int(row[2]), int(row[3])),
    )


def read_tasks(path: Path, *, rows: int | None = None) -> Tasks:
    """Read tasks.csv, which must have ``rows`` rows (where given): those of images.csv."""
    header, lines = _read_csv(path)
    seeds = header[2:]
    if header[:2] != ["row", "task"] or not seeds or not all(_is_seed(name) for name in seeds):
        raise _broken(path, f"has the columns {','.join(header)}, not row,task,seed_…")
    parsed = _parsed(
        path,
        len(header),
        lines,
        lambda row: (int(row[0]), int(row[1]), [_SIDES[side] for side in row[2:]]),
    )
    if [row for row, _, _ in parsed] != list(range(len(parsed))):
        raise _broken(path, "its rows are not numbered 0, 1, 2, …")
    _expect_rows(path, len(parsed), rows)
    return Tasks(
        task=np.array([task for _, task, _ in parsed], dtype=np.int64),
        seeds=tuple(int(name.removeprefix(_SEED)) for name in seeds),
        test=np.array([sides for _, _, sides in parsed], dtype=np.bool_),
    )


def read_labels(path: Path, *, images: Sequence[ImageRow] | None = None) -> list[LabelRow]:
    """Read labels.csv, whose paths must be those of ``images`` (where given)."""
    header, lines = _read_csv(path)
    _expect(path, header, ("path", "class", "label"))
    labels = _parsed(path, len(header), lines, lambda row: LabelRow(row[0], row[1], int(row[2])))
    if images is not None:
        _expect_rows(path, len(labels), len(images))
        for number, (label, image) in enumerate(zip(labels, images, strict=True)):
            if label.path != image.path:
                raise _broken(
                    path, f"row {number} is {label.path}, but {IMAGES} has {image.path} there"
                )
    return labels


def read_classes(path: Path) -> list[ClassRow]:
    """Read classes.csv: the C classes in the order of the labels, and their tasks."""
    header, lines = _read_csv(path)
    _expect(path, header, ("label", "class", "task"))
    classes = _parsed(
        path, len(header), lines, lambda row: ClassRow(int(row[0]), row[1], int(row[2]))
    )
    if [row.label for row in classes] != list(range(len(classes))):
        raise _broken(path, "its labels are not 0, 1, 2, …")
    return classes


def _read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except FileNotFoundError:
        raise _missing(path) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise _broken(path, f"is not CSV: {error}") from None
    if private_files.is_pointer(rows):
        return _read_csv(private_files.followed(path, rows))
    if len(rows) < 2:
        raise _broken(path, "has no rows")
    return rows[0], rows[1:]


def _parsed(
    path: Path, width: int, rows: list[list[str]], parse: Callable[[list[str]], Row]
) -> list[Row]:
    parsed = []
    for number, row in enumerate(rows):
        if len(row) != width:
            raise _broken(path, f"row {number} has {len(row)} fields, not {width}")
        try:
            parsed.append(parse(row))
        except (ValueError, KeyError) as error:
            raise _broken(path, f"row {number} is malformed ({error})") from None
    return parsed


def _sha256(text: str) -> str:
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ValueError(f"{text!r} is not a sha256")
    return text


def _is_seed(name: str) -> bool:
    return name.startswith(_SEED) and name.removeprefix(_SEED).isdigit()


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
