"""Resolve label spaces: which classes source and target share, and in which task each class arrives.

A label space lists source-private and target-private classes; all others are shared. Without private classes it is
closed, with source-private ones partial, with target-private ones open, with both universal. Images of source-private
classes are removed from the target. Images of target-private classes are removed from the source and arrive in the
target's tasks as *unknown*.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from pipeline.datasets.task_files import PARTS, ClassRow, Part, SpaceRow
from pipeline.errors import InputError, did_you_mean, listed

Members = Sequence[str] | int  # class names, or a number of classes


def parts_of(
    key: str,
    classes: Collection[str],
    *,
    shared: Members | None = None,
    source_private: Members = (),
    target_private: Members = (),
) -> dict[str, Part]:
    """Return for each of the ``classes`` whether it is shared or private; ``key`` names the label space in messages.

    A number means that many unlisted classes, in alphabetical order as in the literature's splits and first for
    ``shared``. Without ``shared``, all remaining classes are shared.

    Examples
    --------
    >>> parts_of("open", ["pen", "bike", "Mug", "lamp"], shared=2, target_private=2)
    {'bike': 'shared', 'lamp': 'shared', 'Mug': 'target', 'pen': 'target'}
    """
    lists: dict[Part, Members] = {"shared": shared or (), "source": source_private, "target": target_private}
    parts: dict[str, Part] = {}
    for part, members in lists.items():
        for name in () if isinstance(members, int) else members:
            if name not in classes:
                hint = did_you_mean(name, classes)
                raise InputError(f"{key}: {name!r} is not a class of the dataset{hint}")
            if name in parts:
                raise InputError(f"{key}: {name!r} is listed twice; a class is shared or has one owner")
            parts[name] = part
    rest = sorted((name for name in classes if name not in parts), key=str.casefold)
    for part, members in lists.items():
        if isinstance(members, int):
            if members > len(rest):
                raise InputError(f"{key}: asks for {members} more classes, but {len(rest)} of {len(classes)} are left")
            parts |= dict.fromkeys(rest[:members], part)
            rest = rest[members:]
    if shared is not None and rest:
        raise InputError(f"{key}: nobody has {listed(rest)}; name them, or leave `shared` out")
    parts |= dict.fromkeys(rest, "shared")
    if "shared" not in parts.values():
        raise InputError(f"{key}: source and target share no class; take one out of the lists")
    return parts


def label_space(key: str, classes: Sequence[ClassRow], **members: Members) -> list[SpaceRow]:
    """Return each class's part and task; ``members`` are the lists of `parts_of`.

    Shared classes keep their order of arrival, and tasks without any are removed. Source-private classes are dealt to
    the tasks in turn, in order of arrival, and so are target-private ones.

    Examples
    --------
    >>> rows = [ClassRow(0, "bike", 0), ClassRow(1, "lamp", 0), ClassRow(2, "mug", 1), ClassRow(3, "pen", 2)]
    >>> for row in label_space("open", rows, target_private=["lamp", "mug"]):
    ...     print(*row)
    bike shared 0
    lamp target 0
    mug target 1
    pen shared 1
    """
    parts = parts_of(key, [row.class_name for row in classes], **members)
    tasks = sorted({row.task for row in classes if parts[row.class_name] == "shared"})
    counts = dict.fromkeys(PARTS, 0)
    rows = []
    for row in classes:
        part = parts[row.class_name]
        task = tasks.index(row.task) if part == "shared" else counts[part] % len(tasks)
        counts[part] += 1
        rows.append(SpaceRow(row.class_name, part, task))
    return rows


def target_tasks(rows: Sequence[SpaceRow], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the task (n,) of each target image, given its class; -1 for source-private classes."""
    task_of = {row.class_name: -1 if row.part == "source" else row.task for row in rows}
    return np.array([task_of[name] for name in labels], dtype=np.int64)


def known_classes(rows: Sequence[SpaceRow]) -> list[ClassRow]:
    """Return the source's classes in order of arrival, numbered from 0."""
    known = sorted((row for row in rows if row.part != "target"), key=lambda row: row.task)
    return [ClassRow(label, row.class_name, row.task) for label, row in enumerate(known)]
