"""The task sequence: which classes arrive together."""

from __future__ import annotations

from collections.abc import Iterable


def task_of_classes(classes: Iterable[str], classes_per_task: int) -> dict[str, int]:
    """Return the task, 0 to T-1, of each of C classes.

    Classes arrive in sorted order, ``classes_per_task`` at a time; the last task takes the
    remainder (31 classes by 6 are 6+6+6+6+7), so T = C // classes_per_task, at least 1.
    """
    ordered = sorted(set(classes))
    last = max(1, len(ordered) // classes_per_task) - 1
    return {name: min(index // classes_per_task, last) for index, name in enumerate(ordered)}
