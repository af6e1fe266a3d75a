"""The order in which classes arrive, kept once a domain has one: a new class arrives last, old images keep their tasks.

Alphabetical and drawn orders move when a class is added between others. So the stage `order` writes what it decided to
orders/DOMAIN.json, which git keeps beside suite.yaml, and begins with it the next time. There is an order for each way
of asking for one (`classes_per_task`, `class_order_seed`, `tasks` in suite.yaml): asking for another, and for the first
one again, changes nothing. A class that is taken away and put back finds its place again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.datasets.tasks import task_of_classes
from pipeline.errors import InputError
from pipeline.write_aside import write_aside

Order = list[list[str]]  # the classes of each task


class KeptOrder(NamedTuple):
    """An order, and the settings of suite.yaml that asked for it."""

    asked: Mapping[str, Any]
    tasks: Order


def order_of_arrival(
    names: Sequence[str],
    kept: Order,
    *,
    classes_per_task: int,
    tasks: Sequence[Sequence[str]] | None = None,
    class_order_seed: int | None = None,
) -> Order:
    """Return the classes of each task: those of ``kept``, the order of the last time, and new ones after them.

    The first time it is what suite.yaml asks for, see `task_of_classes`.

    Examples
    --------
    >>> first = order_of_arrival(["bee", "cat", "dog"], [], classes_per_task=1)
    >>> order_of_arrival(["ant", "bee", "cat", "dog"], first, classes_per_task=1)
    [['bee'], ['cat'], ['dog'], ['ant']]
    """
    # computed in any case: a list that names a class that there is not is refused
    drawn = task_of_classes(names, classes_per_task, tasks=tasks, order_seed=class_order_seed)
    if not kept:
        return _grouped(drawn)
    known = {name for task in kept for name in task}
    new = [name for name in names if name not in known]
    return [*kept, *(_grouped(task_of_classes(new, classes_per_task)) if new else [])]


def present(order: Order, names: Iterable[str]) -> Order:
    """Return an order without the classes that are not there now; tasks without a class are closed up."""
    names = set(names)
    tasks = ([name for name in task if name in names] for task in order)
    return [task for task in tasks if task]


def _grouped(task_of: Mapping[str, int]) -> Order:
    order: Order = [[] for _ in range(max(task_of.values()) + 1)]
    for name, task in task_of.items():
        order[task].append(name)
    return order


def longest(asked: Mapping[str, Any], files: Iterable[Sequence[KeptOrder]]) -> Order:
    """Return the order kept for these settings; of several domains', which begin alike, the one with most classes."""
    found = [kept.tasks for orders in files for kept in orders if kept.asked == asked]
    return max(found, key=lambda order: sum(map(len, order)), default=[])


def read_orders(path: Path) -> list[KeptOrder]:
    """Read orders/DOMAIN.json; nothing where there is none yet."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        orders = [KeptOrder(entry["asked"], entry["tasks"]) for entry in entries]
        if all(isinstance(name, str) for kept in orders for task in kept.tasks for name in task):
            return orders
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, LookupError):
        pass
    raise InputError(
        f"{path}: cannot be read; if git left a conflict, keep the lines of one side, otherwise restore it from git, "
        "or remove it to have the classes in the order of suite.yaml again"
    )


def in_force(path: Path) -> Order:
    """Return the order that orders/DOMAIN.json was last written for."""
    orders = read_orders(path)
    if not orders:
        raise InputError(f"{path}: no such file, or it is empty; run dvc repro order@{path.stem}")
    return orders[-1].tasks


def write_orders(path: Path, orders: Iterable[KeptOrder]) -> None:
    """Write orders/DOMAIN.json, one line per task."""
    entries = (
        f'{{"asked": {json.dumps(asked, ensure_ascii=False)},\n "tasks": [\n  '
        + ",\n  ".join(json.dumps(task, ensure_ascii=False) for task in tasks)
        + "\n ]}"
        for asked, tasks in orders
    )
    with write_aside(path) as aside:
        aside.write_text("[" + ",\n".join(entries) + "]\n", encoding="utf-8")
