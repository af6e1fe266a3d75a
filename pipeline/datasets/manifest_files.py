"""The files of a manifest: a domain's images, one row each, and apart from them tasks and labels.

In cache/manifests/DOMAIN; images, tasks and labels are aligned row by row:

===============  =============================  ==================================================
``images.csv``   path, sha256, width, height    all that `embed` reads
``labels.csv``   path, class                    for tasks, for the source, and for evaluation alone
``names.csv``    class, task                    the classes, sorted; tasks where the source of images has them
``report.json``  counts, duplicates, skipped    for people; no stage reads it
``tasks.csv``    row, task, seed_0, seed_1, …   train or test per seed; no path, no label
                 (and space_NAME, …)            task as a target of a label space; 0: not in it
``classes.csv``  label, class, task             label = index in the order of arrival, from 0
                 (and space_NAME, …)            part and task in a label space
===============  =============================  ==================================================

The stage `manifest` writes the first four, `tasks` the others. Beside each CSV file stands its digest
(`checked_csv`). Of a private domain images.csv, labels.csv and report.json are kept outside the cache.

**Tasks count from 1 in the files and from 0 in memory**: the readers here subtract the one.

Of an unlabelled domain (`labels: none`), tasks.csv and labels.csv have a header and no rows.

A change of seeds or tasks leaves the first four, hence all embeddings and prompts, as they are. The
same images give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.checked_csv import (
    digest_file,
    digest_line,
    keep_former,
    malformed,
    pointer,
    private_path,
    read_csv,
    sha256_of,
    write_csv,
)
from pipeline.errors import InputError
from pipeline.write_aside import write_aside

IMAGES, TASKS, CLASSES, LABELS = "images.csv", "tasks.csv", "classes.csv", "labels.csv"
NAMES = "names.csv"
REPORT = "report.json"
KEPT_PRIVATE = (IMAGES, LABELS, REPORT)  # of a private domain
MAX_HEADER = 2**20  # bytes: more than the seeds of any header take
MAX_NUMBER = 2**31  # of a task or class: a bound on what a malformed file may ask for

_IMAGE_COLUMNS = ("path", "sha256", "width", "height")
_CLASS_COLUMNS = ("label", "class", "task")
_LABEL_COLUMNS = ("path", "class")
_NAME_COLUMNS = ("class", "task")
_SEED = re.compile(r"seed_([0-9]{1,18})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SPACE = re.compile(r"space_(\w+)", re.ASCII)
_IS_TEST = {"train": False, "test": True}

Row = TypeVar("Row")


class ImageRow(NamedTuple):
    """A row of images.csv; width and height are 0 where only the path is known."""

    path: str
    sha256: str
    width: int
    height: int


class ClassRow(NamedTuple):
    """A row of classes.csv; ``task`` counts from 0 here, from 1 in the file."""

    label: int
    class_name: str
    task: int


@dataclass(frozen=True)
class Tasks:
    """Tasks and splits of n images under S seeds, as tasks.csv has them."""

    task: NDArray[np.int64]  # (n,), 0 to T - 1 (1 to T in the file)
    seeds: tuple[int, ...]
    test: NDArray[np.bool_]  # (n, S): whether an image is a test image under each seed
    # of each label space, (n,): the image's task in a target; -1 for an image that is not in it
    spaces: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def is_test(self, seed: int) -> NDArray[np.bool_]:
        """Return the mask (n,) of the test images of ``seed``."""
        mask: NDArray[np.bool_] = self.test[:, self.seeds.index(seed)]
        return mask


class LabelledRow(NamedTuple):
    """An image's class and sha256."""

    class_name: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What `manifest` writes: n images, the class of each (none of an unlabelled domain), C class names, the report."""

    images: Sequence[ImageRow]
    labels: Sequence[str]
    class_names: Sequence[str]
    report: dict[str, Any]
    tasks: Sequence[Sequence[str]] | None = None  # the classes of each, where the source of images says them


Table = tuple[Sequence[str], Iterable[Iterable[object]]]


def write_manifest(manifest: Manifest, folder: Path, *, private: bool = False) -> None:
    """Write what `manifest` writes to cache/manifests/DOMAIN; all are whole before the first is renamed.

    ``private`` keeps the files that tell an image's class in private/DOMAIN and writes pointers to them.
    """
    task_of = {name: t + 1 for t, names in enumerate(manifest.tasks or ()) for name in names}
    tables: dict[str, Table] = {
        IMAGES: (_IMAGE_COLUMNS, manifest.images),
        LABELS: (
            _LABEL_COLUMNS,
            # a domain without labels has images and no rows here
            ((image.path, name) for image, name in zip(manifest.images, manifest.labels, strict=False)),
        ),
        NAMES: (_NAME_COLUMNS, ((name, task_of.get(name, "")) for name in manifest.class_names)),
    }
    report = json.dumps(manifest.report, indent=2, ensure_ascii=False) + "\n"
    _write(folder, tables, {REPORT: report}, KEPT_PRIVATE if private else ())


def write_tasks(
    tasks: Tasks,
    classes: Sequence[ClassRow],
    folder: Path,
    spaces: Mapping[str, Sequence[tuple[str, str, int]]] | None = None,
) -> None:
    """Write what `tasks` writes to cache/manifests/DOMAIN; ``spaces``: class, part and task of each label space."""
    split = np.where(tasks.test, "test", "train")
    seeds = (f"seed_{seed}" for seed in tasks.seeds)
    names = [f"space_{name}" for name in tasks.spaces]
    parts = [[f"{part}:{task + 1}" for _, part, task in rows] for rows in (spaces or {}).values()]
    tables: dict[str, Table] = {
        TASKS: (
            ("row", "task", *seeds, *names),
            (
                (row, tasks.task[row] + 1, *split[row], *(t[row] + 1 for t in tasks.spaces.values()))
                for row in range(len(split))
            ),
        ),
        CLASSES: (
            (*_CLASS_COLUMNS, *names),
            ((*row[:2], row.task + 1, *(part[row.label] for part in parts)) for row in classes),
        ),
    }
    _write(folder, tables, {}, ())


def _write(folder: Path, tables: Mapping[str, Table], texts: Mapping[str, str], private: Sequence[str]) -> None:
    """Write tables with their digests, and texts, those of ``private`` to private/DOMAIN with a pointer to them."""
    with ExitStack() as stack:
        for name in (*tables, *texts):
            path, kept = folder / name, name in private
            aside = stack.enter_context(write_aside(private_path(path) if kept else path))
            if name in texts:
                _write_text(aside, texts[name])
            else:
                write_csv(aside, *tables[name])
            if kept:
                keep_former(path)
                text = pointer(name, sha256_of(aside))
                aside = stack.enter_context(write_aside(path))
                _write_text(aside, text)
            if name in tables:
                beside = stack.enter_context(write_aside(digest_file(path)))
                _write_text(beside, digest_line(name, sha256_of(aside)))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def read_images(path: Path) -> list[ImageRow]:
    """Read images.csv: n rows."""
    return list(iterate_images(path))


def iterate_images(path: Path) -> Iterator[ImageRow]:
    """Yield the rows of images.csv, one at a time: a million of them in a list take 0.3 GB."""
    return _parsed(path, _IMAGE_COLUMNS, lambda row: ImageRow(row[0], _sha256(row[1]), int(row[2]), int(row[3])))


def rows_digest(image_digests: Iterable[str]) -> str:
    """Return the identity of a manifest's rows: the sha256 of the sha256 of each image, in their order.

    Stores and labels made for the same rows carry the same one.
    """
    digest = hashlib.sha256()
    for number, image in enumerate(image_digests):
        digest.update(f"\n{image}".encode() if number else image.encode())
    return digest.hexdigest()


def is_labelled(folder: Path) -> bool:
    """Tell whether the domain with this manifest has labels: tasks.csv, which is never private, has rows then."""
    try:
        with (folder / TASKS).open("rb") as file:
            lines = file.readline(MAX_HEADER), file.read(1)
    except OSError:
        return True  # whoever reads the file says what is wrong with it
    return bool(lines[1]) or not lines[0].startswith(b"row,task,seed_")


def _require_labelled(folder: Path) -> None:
    if not is_labelled(folder):
        raise InputError(
            f"{folder / TASKS}: the domain has no labels (domains.{folder.name}.labels: none), and this needs them; "
            "adapt to its images by an entry of `steps` in suite.yaml (`referee stream add`)"
        )


def iterate_labelled(folder: Path) -> Iterator[LabelledRow]:
    """Yield class and sha256 of every image of cache/manifests/DOMAIN; nothing for a domain without labels."""
    path = folder / LABELS
    rows = _label_rows(path)
    first = next(rows, None)
    if first is None:
        return
    pairs = zip_longest(chain([first], rows), iterate_images(folder / IMAGES))
    for number, (row, image) in enumerate(pairs):
        if row is None or image is None:
            raise malformed(path, f"has {'more' if row else 'fewer'} rows than {IMAGES}")
        if row[0] != image.path:
            raise malformed(path, f"row {number} is {row[0]}, in {IMAGES} {image.path}")
        yield LabelledRow(row[1], image.sha256)


def read_labels(folder: Path) -> tuple[NDArray[np.int64], str]:
    """Read the labels of a domain, and whose labels they are, row by row: a million take 8 MB.

    Parameters
    ----------
    folder : Path
        cache/manifests/DOMAIN. The paths in labels.csv must be those in images.csv; the numbers are those of
        classes.csv.

    Returns
    -------
    labels : ndarray of shape (n,)
        Class of each image, 0 to C - 1.
    digest : str
        The `rows_digest` of the images, to be compared with that of an embedding store.
    """
    _require_labelled(folder)
    label_of = {row.class_name: row.label for row in read_classes(folder / CLASSES)}
    labels = array("q")

    def digests() -> Iterator[str]:
        for row in iterate_labelled(folder):
            if row.class_name not in label_of:
                raise malformed(folder / LABELS, f"{row.class_name!r} is not in {CLASSES}")
            labels.append(label_of[row.class_name])
            yield row.sha256

    digest = rows_digest(digests())
    return np.array(labels, dtype=np.int64), digest


def _label_rows(path: Path) -> Iterator[list[str]]:
    """Yield path and class of the rows of labels.csv; before 0.2 it also had the number of the class."""
    lines = read_csv(path, may_be_empty=True)
    header = tuple(next(lines))
    if header not in (_LABEL_COLUMNS, (*_LABEL_COLUMNS, "label")):
        wanted = ",".join(_LABEL_COLUMNS)
        raise malformed(path, f"has the columns {','.join(header)[:200]}, not {wanted}")
    yield from lines


def read_class_names(path: Path) -> list[str]:
    """Read names.csv: the classes, sorted."""
    return list(_parsed(path, _NAME_COLUMNS, lambda row: row[0]))


def read_source_tasks(path: Path) -> list[list[str]] | None:
    """Read the classes of each task from names.csv, where the source of the images says them."""
    rows = _parsed(path, _NAME_COLUMNS, lambda row: (row[0], _number(row[1], first=1) if row[1] else -1))
    task_of = {name: task for name, task in rows if task >= 0}
    numbers = sorted(set(task_of.values()))
    return [[name for name in task_of if task_of[name] == task] for task in numbers] or None


def read_tasks(path: Path, *, rows: int | None = None) -> Tasks:
    """Read tasks.csv, which must have ``rows`` rows where that is given: those of images.csv."""
    _require_labelled(path.parent)
    lines = read_csv(path)
    header = next(lines)
    spaces = [found[1] for name in header if (found := _SPACE.fullmatch(name))]
    S = len(header) - len(spaces)
    seeds = [_SEED.fullmatch(name) for name in header[2:S]]
    if header[:2] != ["row", "task"] or not seeds or not all(seeds):
        raise malformed(path, f"has the columns {','.join(header)[:200]}, not row,task,seed_…")
    task, test, in_space = array("q"), bytearray(), array("q")
    for number, row in enumerate(lines):
        try:
            task.append(_number(row[1], first=1))
            test.extend([_IS_TEST[side] for side in row[2:S]])
            in_space.extend([_number(number) - 1 for number in row[S:]])
        except (ValueError, KeyError) as error:
            raise malformed(path, f"row {number} is malformed ({error})") from None
        if row[0] != str(number):
            raise malformed(path, "its rows are not numbered 0, 1, 2, …")
    if rows is not None and len(task) != rows:
        raise malformed(path, f"has {len(task)} rows, but {IMAGES} has {rows}")
    return Tasks(
        task=np.array(task, dtype=np.int64),
        seeds=tuple(int(seed[1]) for seed in seeds if seed),
        test=np.array(test, dtype=np.bool_).reshape(len(task), len(seeds)),
        spaces=dict(zip(spaces, np.array(in_space, np.int64).reshape(len(task), len(spaces)).T, strict=True)),
    )


def read_classes(path: Path) -> list[ClassRow]:
    """Read classes.csv: the C classes in the order of their labels; tasks from 0."""
    classes = list(
        _parsed(
            path, _CLASS_COLUMNS, lambda row: ClassRow(_number(row[0]), row[1], _number(row[2], first=1)), more=_SPACE
        )
    )
    if [row.label for row in classes] != list(range(len(classes))):
        raise malformed(path, "its labels are not 0, 1, 2, …")
    tasks = [row.task for row in classes]
    if tasks != sorted(tasks) or set(tasks) != set(range(tasks[-1] + 1)):
        raise malformed(path, "its tasks are not 1, 2, 3, … in order")
    return classes


def read_label_spaces(path: Path) -> dict[str, list[tuple[str, str, int]]]:
    """Read the label spaces of classes.csv: by name, class, part and task (from 0) in the order of the labels."""
    names = [found[1] for name in next(read_csv(path)) if (found := _SPACE.fullmatch(name))]

    def parse(row: list[str]) -> list[tuple[str, str, int]]:
        cells = (cell.partition(":") for cell in row[3:])
        return [(row[1], part, _number(task, first=1)) for part, _, task in cells]

    rows = list(_parsed(path, _CLASS_COLUMNS, parse, more=_SPACE))
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}


def _parsed(
    path: Path, columns: tuple[str, ...], parse: Callable[[list[str]], Row], *, more: re.Pattern[str] | None = None
) -> Iterator[Row]:
    """Yield the parsed rows; ``more`` is how columns after the named ones may be called."""
    lines = read_csv(path)
    header = next(lines)
    others = header[len(columns) :]
    if tuple(header[: len(columns)]) != columns or (others and not (more and all(map(more.fullmatch, others)))):
        raise malformed(path, f"has the columns {','.join(header)[:200]}, not {','.join(columns)}")
    for number, row in enumerate(lines):
        try:
            parsed = parse(row)
        except ValueError as error:
            raise malformed(path, f"row {number} is malformed ({error})") from None
        yield parsed


def _number(text: str, first: int = 0) -> int:
    """Return a number that counts from ``first`` in the file as one that counts from 0."""
    number = int(text) - first
    if not 0 <= number < MAX_NUMBER:
        raise ValueError(f"{text!r} is no number of a class or task")
    return number


def _sha256(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError(f"{text!r} is not a sha256")
    return text
