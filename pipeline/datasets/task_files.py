"""The tables of the stage `tasks`, in cache/manifests/DOMAIN/tasks: the order of the classes, and tasks and splits.

===============  =============================  ================================================
``tasks.csv``    row, task, seed_0, seed_1, …   train or test per seed; no path, no label
                 (and space_NAME, …)            task as a target of a label space; 0: not in it
``classes.csv``  label, class, task             label = index in the order of arrival, from 0
                 (and space_NAME, …)            part and task in a label space
===============  =============================  ================================================

**Tasks count from 1 in the files and from 0 in memory**: the readers here subtract the one. Of an unlabelled domain
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

from pipeline.datasets.checked_csv import malformed, number_of, parsed_rows, read_csv, writing_folder
from pipeline.errors import InputError, counted

Part = Literal["shared", "source", "target"]
PARTS: tuple[Part, ...] = get_args(Part)
TASKS, CLASSES = Path("tasks/tasks.csv"), Path("tasks/classes.csv")
MAX_HEADER = 2**20  # bytes: more than the seeds of any header take

_CLASS_COLUMNS = ("label", "class", "task")
_SEED = re.compile(r"seed_([0-9]{1,18})")
_SPACE = re.compile(r"space_(\w+)", re.ASCII)
_IS_TEST = {"train": False, "test": True}


class ClassRow(NamedTuple):
    """A row of classes.csv; ``task`` counts from 0 here, from 1 in the file."""

    label: int
    class_name: str
    task: int


class SpaceRow(NamedTuple):
    """A class in a label space: who has it, and its task, from 0."""

    class_name: str
    part: Part
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


def write_tasks(
    tasks: Tasks, classes: Sequence[ClassRow], folder: Path, spaces: Mapping[str, Sequence[SpaceRow]] | None = None
) -> None:
    """Write the tables of cache/manifests/DOMAIN; ``spaces``: class, part and task of each label space."""
    split = np.where(tasks.test, "test", "train")
    seeds = (f"seed_{seed}" for seed in tasks.seeds)
    names = [f"space_{name}" for name in tasks.spaces]
    parts = [[f"{part}:{task + 1}" for _, part, task in rows] for rows in (spaces or {}).values()]
    task_rows = (
        (row, tasks.task[row] + 1, *split[row], *(t[row] + 1 for t in tasks.spaces.values()))
        for row in range(len(split))
    )
    class_rows = ((*row[:2], row.task + 1, *(part[row.label] for part in parts)) for row in classes)
    tables = {
        TASKS.name: (("row", "task", *seeds, *names), task_rows),
        CLASSES.name: ((*_CLASS_COLUMNS, *names), class_rows),
    }
    with writing_folder(folder / TASKS.parent, tables):
        pass


def is_labelled(folder: Path) -> bool:
    """Tell whether the domain with this manifest has labels: tasks.csv, which is never private, has rows then."""
    try:
        with (folder / TASKS).open("rb") as file:
            lines = file.readline(MAX_HEADER), file.read(1)
    except OSError:
        return True  # whoever reads the file says what is wrong with it
    return bool(lines[1]) or not lines[0].startswith(b"row,task,seed_")


def require_labelled(folder: Path) -> None:
    """Refuse a domain without labels."""
    if not is_labelled(folder):
        raise InputError(
            f"{folder / TASKS}: the domain has no labels (domains.{folder.name}.labels: none), and this needs them; "
            "adapt to its images by an entry of `steps` in suite.yaml (`referee stream add`)"
        )


def read_tasks(folder: Path, *, rows: int | None = None) -> Tasks:
    """Read tasks.csv of cache/manifests/DOMAIN, which must have ``rows`` rows where that is given."""
    require_labelled(folder)
    path = folder / TASKS
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
            task.append(number_of(row[1], first=1))
            test.extend([_IS_TEST[side] for side in row[2:S]])
            in_space.extend([number_of(cell) - 1 for cell in row[S:]])
        except (ValueError, KeyError) as error:
            raise malformed(path, f"row {number} is malformed ({error})") from None
        if row[0] != str(number):
            raise malformed(path, "its rows are not numbered 0, 1, 2, …")
    if rows is not None and len(task) != rows:
        raise malformed(path, f"has {counted(len(task), 'row')}, but images.csv has {rows}")
    return Tasks(
        task=np.array(task, dtype=np.int64),
        seeds=tuple(int(seed[1]) for seed in seeds if seed),
        test=np.array(test, dtype=np.bool_).reshape(len(task), len(seeds)),
        spaces=dict(zip(spaces, np.array(in_space, np.int64).reshape(len(task), len(spaces)).T, strict=True)),
    )


def read_classes(folder: Path) -> list[ClassRow]:
    """Read classes.csv of cache/manifests/DOMAIN: the C classes in the order of their labels; tasks from 0."""
    path = folder / CLASSES

    def parse(row: list[str]) -> ClassRow:
        return ClassRow(number_of(row[0]), row[1], number_of(row[2], first=1))

    classes = list(parsed_rows(path, _CLASS_COLUMNS, parse, more=_SPACE))
    if [row.label for row in classes] != list(range(len(classes))):
        raise malformed(path, "its labels are not 0, 1, 2, …")
    tasks = [row.task for row in classes]
    if tasks != sorted(tasks) or set(tasks) != set(range(tasks[-1] + 1)):
        raise malformed(path, "its tasks are not 1, 2, 3, … in order")
    return classes


def read_label_spaces(folder: Path) -> dict[str, list[SpaceRow]]:
    """Read the label spaces of classes.csv by name, each in the order of the labels."""
    path = folder / CLASSES
    names = [found[1] for name in next(read_csv(path)) if (found := _SPACE.fullmatch(name))]

    def parse(row: list[str]) -> list[SpaceRow]:
        cells = (cell.partition(":") for cell in row[3:])
        return [SpaceRow(row[1], PARTS[PARTS.index(part)], number_of(task, first=1)) for part, _, task in cells]

    rows = list(parsed_rows(path, _CLASS_COLUMNS, parse, more=_SPACE))
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}
