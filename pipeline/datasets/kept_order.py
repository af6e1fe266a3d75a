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

import numpy as np
from pydantic import TypeAdapter

from pipeline.errors import InputError, did_you_mean
from pipeline.write_aside import write_text

Order = list[list[str]]  # the classes of each task


class KeptOrder(NamedTuple):
    """An order, and the settings of suite.yaml that asked for it."""

    asked: Mapping[str, Any]
    tasks: Order


def order_of_arrival(
    names: Iterable[str],
    kept: Sequence[Sequence[str]] = (),
    *,
    classes_per_task: int,
    tasks: Sequence[Sequence[str]] | None = None,
    class_order_seed: int | None = None,
) -> Order:
    """Return the classes of each task: those of ``kept``, the order of the last time, and new ones after them.

    The first time ``tasks`` come first. Sorted classes then arrive ``classes_per_task`` at a time;
    classes left over join the last task. Where nothing comes before them, ``class_order_seed`` shuffles them by the
    permutation of NumPy's legacy generator as continual-learning papers do: 1993 gives the order of iCaRL and its
    successors.

    Examples
    --------
    >>> order_of_arrival(["mug", "bike", "pen", "chair", "lamp"], classes_per_task=2)
    [['bike', 'chair'], ['lamp', 'mug', 'pen']]
    >>> order_of_arrival(["mug", "bike", "pen"], classes_per_task=1, tasks=[["pen", "mug"]])
    [['pen', 'mug'], ['bike']]
    >>> order_of_arrival(["mug", "bike", "pen"], classes_per_task=1, class_order_seed=1993)
    [['bike'], ['pen'], ['mug']]
    >>> order_of_arrival(["ant", "bee", "cat"], kept=[["bee"], ["cat"]], classes_per_task=1)
    [['bee'], ['cat'], ['ant']]
    """
    names = set(names)
    for name in (name for task in tasks or () for name in task):
        if name not in names:
            raise InputError(
                f"suite.yaml: datasets.*.tasks: {name!r} is no class of it; take it out of the list"
                f"{did_you_mean(name, names)}"
            )
    order = [list(task) for task in kept or tasks or ()]
    new = sorted(names.difference(*order))
    if not order and class_order_seed is not None:
        new = [new[index] for index in np.random.RandomState(class_order_seed).permutation(len(new))]
    while new:
        size = classes_per_task if len(new) >= 2 * classes_per_task else len(new)
        order.append(new[:size])
        new = new[size:]
    return order


def present(order: Order, names: Iterable[str]) -> Order:
    """Return an order without the classes that are not there now; tasks without a class are closed up."""
    names = set(names)
    tasks = ([name for name in task if name in names] for task in order)
    return [task for task in tasks if task]


def longest(asked: Mapping[str, Any], files: Iterable[Sequence[KeptOrder]]) -> Order:
    """Return the order kept for these settings; of several domains', which begin alike, the one with most classes."""
    found = [kept.tasks for orders in files for kept in orders if kept.asked == asked]
    return max(found, key=lambda order: sum(map(len, order)), default=[])


def read_orders(path: Path) -> list[KeptOrder]:
    """Read orders/DOMAIN.json, the order in force last; nothing where there is none yet."""
    try:
        return TypeAdapter(list[KeptOrder]).validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise InputError(
            f"{path}: cannot be read; if git left a conflict, keep the lines of one side, otherwise restore it from "
            "git, or remove it to have the classes in the order of suite.yaml again"
        ) from None


def write_orders(path: Path, orders: Iterable[KeptOrder]) -> None:
    """Write orders/DOMAIN.json, one line per task."""
    entries = (
        f'{{"asked": {json.dumps(asked, ensure_ascii=False)},\n "tasks": [\n  '
        + ",\n  ".join(json.dumps(task, ensure_ascii=False) for task in tasks)
        + "\n ]}"
        for asked, tasks in orders
    )
    write_text(path, "[" + ",\n".join(entries) + "]\n")
