"""The rows that a peer is fitted to, task by task: the source's with true labels, or the target's with pseudo-labels.

Both are generators: a method folds a task in and cannot look back. Embeddings are those of the original view, as
the backbone gave them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.comparison.referee_variants import first_labels
from pipeline.errors import InputError, listed
from pipeline.method.rows import Labels, Matrix, Vector64, as_array
from pipeline.method.source_model import check_task_order
from pipeline.problem.seed import Seed

VIEW = "original"  # peers and heads know no frequency-aware views


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Labelled rows of one task."""

    classes: Labels  # (C_t,) the task's class set, in ascending order
    rows: Matrix  # (n, d) embeddings
    labels: Labels  # (n,) class of each row, one of ``classes``
    weights: Vector64  # (n,) weight of each row, above 0

    @property
    def classes_seen(self) -> int:
        """Number of classes after this task: they are 0 to ``classes_seen`` - 1."""
        return int(self.classes.max()) + 1


def source_tasks(seed: Seed) -> Iterator[TaskRows]:
    """Yield the source's train rows of each task with their labels, every weight 1; a class needs a row."""
    check_task_order(seed.tasks)
    labels = seed.source.labels
    for classes in seed.tasks:
        missing = np.setdiff1d(classes, labels)
        if len(missing):
            raise InputError(f"source: no train row of class {listed(missing)}")
        index = np.flatnonzero(np.isin(labels, classes))
        rows = np.asarray(seed.source.views[VIEW][index])
        yield TaskRows(np.sort(classes), rows, labels[index], np.ones(len(index)))


def pseudo_labelled_tasks(seed: Seed) -> Iterator[TaskRows]:
    """Yield the target's train rows of each task with the labels and weights of `first_labels`.

    Rows that were not kept, or have no weight, are left out. A class may have no row: each method says in its
    docstring what it does then.
    """
    for task, labels in zip(seed.target.tasks, first_labels(seed), strict=True):
        index = np.flatnonzero(labels.kept & (labels.weight > 0))
        rows = np.asarray(task.views[VIEW][index])
        yield TaskRows(np.sort(task.classes), rows, labels.label[index], labels.weight[index])


def target_test_rows(seed: Seed) -> Matrix:
    """Return the embeddings (n, d) of the target's test rows."""
    return as_array(seed.target.test.views[VIEW])
