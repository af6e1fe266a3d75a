"""Keep the order in which a domain's classes arrive: new classes arrive last, and old images keep their tasks.

Alphabetical and random orders shift when a class is added. So the stage `order` writes its order to orders/DOMAIN.json,
which git tracks beside suite.yaml, and starts from it next time. Each combination of `classes_per_task`,
`class_order_seed` and `tasks` in suite.yaml has its own order, so switching to other settings and back changes
nothing. A class that is removed and added again returns to its place.
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
    """An order, and the settings in suite.yaml that it was made for."""

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
    """Return the classes of each task: the previous order ``kept``, followed by new classes.

    Without ``kept``, the order starts with ``tasks``. The other classes are sorted and arrive ``classes_per_task`` at a
    time; leftovers join the last task. Without ``kept`` and ``tasks``, ``class_order_seed`` shuffles them with NumPy's
    legacy generator, as continual-learning papers do: 1993 gives the order of iCaRL and its successors.

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
                f"suite.yaml: datasets.*.tasks: {name!r} is not a class of it; remove it from the list"
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


def restrict_order(order: Order, names: Iterable[str]) -> Order:
    """Return an order restricted to the classes ``names``, without empty tasks."""
    names = set(names)
    tasks = ([name for name in task if name in names] for task in order)
    return [task for task in tasks if task]


def longest_order(settings: Mapping[str, Any], files: Iterable[Sequence[KeptOrder]]) -> Order:
    """Return the longest order kept for these settings; those of several domains begin alike."""
    matches = [order.tasks for orders in files for order in orders if order.asked == settings]
    return max(matches, key=lambda order: sum(map(len, order)), default=[])


def read_orders(path: Path) -> list[KeptOrder]:
    """Read orders/DOMAIN.json, with the current order last; return [] if there is no file yet."""
    try:
        return TypeAdapter(list[KeptOrder]).validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise InputError(
            f"{path}: cannot be read; if git left a conflict, keep the lines of one side, otherwise restore it from "
            "git, or remove it to return to the order of suite.yaml"
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
