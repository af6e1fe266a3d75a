"""Label spaces that differ: which classes source and target share, and in which task each class arrives.

A label space names the classes that only the source has and those that only the target has; the rest are shared. With
neither it is the closed set, with the first alone partial, with the second open, with both universal. Images of
source-private classes leave the target, images of target-private classes leave the source and arrive in the target's
tasks as *unknown*.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from pipeline.datasets.task_files import PARTS, ClassRow, Part, SpaceRow
from pipeline.errors import InputError, did_you_mean, listed

Members = Sequence[str] | int  # names of classes, or how many


def parts_of(
    key: str,
    classes: Collection[str],
    *,
    shared: Members | None = None,
    source_private: Members = (),
    target_private: Members = (),
) -> dict[str, Part]:
    """Return who has each of all ``classes``; ``key`` is where the label space stands, for messages.

    A number stands for so many of the classes that no list names, in alphabetical order as in the literature's splits,
    first for ``shared``. Without ``shared`` all that are left are shared.

    Examples
    --------
    >>> parts_of("open", ["pen", "bike", "Mug", "lamp"], shared=2, target_private=2)
    {'bike': 'shared', 'lamp': 'shared', 'Mug': 'target', 'pen': 'target'}
    """
    asked: dict[Part, Members] = {"shared": shared or (), "source": source_private, "target": target_private}
    found: dict[str, Part] = {}
    for part, members in asked.items():
        for name in () if isinstance(members, int) else members:
            if name not in classes:
                hint = did_you_mean(name, classes)
                raise InputError(f"{key}: {name!r} is no class of the dataset{hint}")
            if name in found:
                raise InputError(f"{key}: {name!r} is listed twice; a class is shared or has one owner")
            found[name] = part
    rest = sorted((name for name in classes if name not in found), key=str.casefold)
    for part, members in asked.items():
        if isinstance(members, int):
            if members > len(rest):
                raise InputError(f"{key}: asks for {members} more classes, but {len(rest)} of {len(classes)} are left")
            found |= dict.fromkeys(rest[:members], part)
            rest = rest[members:]
    if shared is not None and rest:
        raise InputError(f"{key}: nobody has {listed(rest)}; name them, or leave `shared` out")
    found |= dict.fromkeys(rest, "shared")
    if "shared" not in found.values():
        raise InputError(f"{key}: source and target share no class; take one out of the lists")
    return found


def label_space(key: str, classes: Sequence[ClassRow], **members: Members) -> list[SpaceRow]:
    """Return who has each class, and its task; ``members`` as in `parts_of`.

    Shared classes arrive as they do in the closed set; tasks without one are closed up. Source-private classes are
    dealt to the tasks one after another, in order of arrival, and so are target-private ones.

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
    kept = sorted({row.task for row in classes if parts[row.class_name] == "shared"})
    dealt = dict.fromkeys(PARTS, 0)
    found = []
    for row in classes:
        part = parts[row.class_name]
        task = kept.index(row.task) if part == "shared" else dealt[part] % len(kept)
        dealt[part] += 1
        found.append(SpaceRow(row.class_name, part, task))
    return found


def target_tasks(rows: Sequence[SpaceRow], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the task (n,) of each image of a target, given its class; -1 for source-private classes."""
    task_of = {row.class_name: -1 if row.part == "source" else row.task for row in rows}
    return np.array([task_of[name] for name in labels], dtype=np.int64)


def known_classes(rows: Sequence[SpaceRow]) -> list[ClassRow]:
    """Return the source's classes in order of arrival, numbered from 0."""
    known = sorted((row for row in rows if row.part != "target"), key=lambda row: row.task)
    return [ClassRow(label, row.class_name, row.task) for label, row in enumerate(known)]
