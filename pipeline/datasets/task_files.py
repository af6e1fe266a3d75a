"""Read and write the tables of the stage `tasks`, in cache/manifests/DOMAIN/tasks: class order, tasks, and splits.

===============  =============================  ================================================
``tasks.csv``    row, task, seed_0, seed_1, …   train or test per seed; no path, no label
                 (and space_NAME, …)            task in a target with this label space; 0: absent
``classes.csv``  label, class, task             label = index in order of arrival, from 0
                 (and space_NAME, …)            part and task in a label space
===============  =============================  ================================================

**Tasks count from 1 in the files and from 0 in memory**: the readers here subtract 1. If the domain is unlabelled
(`labels: none`), tasks.csv has a header and no rows.
"""

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.checked_csv import malformed, parse_number, read_table, writing_folder
from pipeline.errors import InputError

Part = Literal["shared", "source", "target"]
PARTS: tuple[Part, ...] = get_args(Part)
TASKS, CLASSES = Path("tasks/tasks.csv"), Path("tasks/classes.csv")
MAX_HEADER = 2**20  # bytes; no list of seeds is longer

_CLASS_COLUMNS = ("label", "class", "task")
_SPACE = re.compile(r"space_\w+", re.ASCII)
_SEED_OR_SPACE = re.compile(rf"seed_[0-9]{{1,18}}|{_SPACE.pattern}", re.ASCII)
_SIDES = ("train", "test")


class ClassRow(NamedTuple):
    """A row of classes.csv; ``task`` counts from 0, in the file from 1."""

    label: int
    class_name: str
    task: int


class SpaceRow(NamedTuple):
    """A class in a label space: shared or private, and its task, from 0."""

    class_name: str
    part: Part
    task: int


@dataclass(frozen=True)
class Tasks:
    """Tasks and splits of n images under S seeds, as in tasks.csv."""

    task: NDArray[np.int64]  # (n,), 0 to T - 1 (1 to T in the file)
    seeds: tuple[int, ...]
    test: NDArray[np.bool_]  # (n, S), whether each image is a test image under each seed
    # per label space, the task (n,) of each image in a target; -1 if absent
    spaces: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def test_mask(self, seed: int) -> NDArray[np.bool_]:
        """Return the mask (n,) of the test images of ``seed``."""
        mask: NDArray[np.bool_] = self.test[:, self.seeds.index(seed)]
        return mask


def write_tasks(
    tasks: Tasks, classes: Sequence[ClassRow], folder: Path, spaces: Mapping[str, Sequence[SpaceRow]] | None = None
) -> None:
    """Write the tables of cache/manifests/DOMAIN; ``spaces`` has the classes of each label space."""
    seeds = (f"seed_{seed}" for seed in tasks.seeds)
    names = [f"space_{name}" for name in tasks.spaces]
    parts = [[f"{part}:{task + 1}" for _, part, task in rows] for rows in (spaces or {}).values()]
    sides = np.where(tasks.test, "test", "train")
    task_rows = (
        (row, tasks.task[row] + 1, *sides[row], *(task[row] + 1 for task in tasks.spaces.values()))
        for row in range(len(sides))
    )
    class_rows = ((*row[:2], row.task + 1, *(part[row.label] for part in parts)) for row in classes)
    tables = {
        TASKS.name: (("row", "task", *seeds, *names), task_rows),
        CLASSES.name: ((*_CLASS_COLUMNS, *names), class_rows),
    }
    with writing_folder(folder / TASKS.parent, tables):
        pass


def is_labelled(folder: Path) -> bool:
    """Return whether a domain has labels: then tasks.csv, which is never private, has rows."""
    try:
        with (folder / TASKS).open("rb") as file:
            lines = file.readline(MAX_HEADER), file.read(1)
    except OSError:
        return True  # the error is reported when the file is read
    return bool(lines[1]) or not lines[0].startswith(b"row,task,seed_")


def require_labelled(folder: Path) -> None:
    """Raise InputError if the domain is unlabelled."""
    if not is_labelled(folder):
        raise InputError(
            f"{folder / TASKS}: the domain has no labels (domains.{folder.name}.labels: none); "
            "adapt to its images by an entry of `steps` in suite.yaml (`referee stream add`)"
        )


def read_tasks(folder: Path) -> Tasks:
    """Read tasks.csv of cache/manifests/DOMAIN."""
    require_labelled(folder)
    path = folder / TASKS
    task, test, in_space = array("q"), bytearray(), array("q")

    def parse(row: list[str]) -> tuple[int, bytes, list[int]]:
        if row[0] != str(len(task)):
            raise ValueError("rows must be numbered 0, 1, 2, …")
        sides = bytes(map(_SIDES.index, row[2 : 2 + len(seeds)]))
        return parse_number(row[1], first=1), sides, [parse_number(cell) - 1 for cell in row[2 + len(seeds) :]]

    names, rows = read_table(path, ("row", "task"), parse, extra_columns=_SEED_OR_SPACE)
    seeds = [int(name.removeprefix("seed_")) for name in names if name.startswith("seed_")]
    spaces = [name.removeprefix("space_") for name in names[len(seeds) :]]
    if not seeds:
        raise malformed(path, "has no column seed_…")
    for number, sides, tasks in rows:
        task.append(number)
        test += sides
        in_space.extend(tasks)
    return Tasks(
        task=np.array(task, dtype=np.int64),
        seeds=tuple(seeds),
        test=np.array(test, dtype=np.bool_).reshape(len(task), len(seeds)),
        spaces=dict(zip(spaces, np.array(in_space, np.int64).reshape(len(task), len(spaces)).T, strict=True)),
    )


def read_classes(folder: Path) -> list[ClassRow]:
    """Read classes.csv of cache/manifests/DOMAIN: the C classes in label order, with tasks from 0."""
    path = folder / CLASSES
    _, rows = read_table(path, _CLASS_COLUMNS, _class_row, extra_columns=_SPACE)
    classes = list(rows)
    if [row.label for row in classes] != list(range(len(classes))):
        raise malformed(path, "its labels are not 0, 1, 2, …")
    tasks = [row.task for row in classes]
    if tasks != sorted(tasks) or set(tasks) != set(range(tasks[-1] + 1)):
        raise malformed(path, "its tasks are not 1, 2, 3, … in order")
    return classes


def _class_row(row: list[str]) -> ClassRow:
    return ClassRow(parse_number(row[0]), row[1], parse_number(row[2], first=1))


def read_label_spaces(folder: Path) -> dict[str, list[SpaceRow]]:
    """Read the label spaces in classes.csv by name, each in label order."""

    def parse(row: list[str]) -> list[SpaceRow]:
        cells = (cell.partition(":") for cell in row[3:])
        return [SpaceRow(row[1], PARTS[PARTS.index(part)], parse_number(task, first=1)) for part, _, task in cells]

    names, rows = read_table(folder / CLASSES, _CLASS_COLUMNS, parse, extra_columns=_SPACE)
    columns = zip(*rows, strict=True)
    return {name.removeprefix("space_"): list(column) for name, column in zip(names, columns, strict=True)}
