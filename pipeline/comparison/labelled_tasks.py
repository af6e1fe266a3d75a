"""The rows a peer is fitted to, task by task: the source's with their labels, or the target's with pseudo-labels.

Both are generators, so that a method folds a task in and cannot look back. Embeddings are the original view's, as
the backbone gave them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.comparison.problem import SeedProblem
from pipeline.comparison.referee_variants import first_labels
from pipeline.errors import InputError, listed
from pipeline.method.class_statistics import Labels, Vector64
from pipeline.method.source_model import check_task_order
from pipeline.method.zero_shot import Matrix


@dataclass(frozen=True, eq=False)
class LabelledTask:
    """A task's class set; its rows (n, d), their classes (n,), all of the set, and weights (n,), all above 0."""

    classes: Labels
    rows: Matrix
    labels: Labels
    weights: Vector64

    @property
    def seen(self) -> int:
        """K: the classes seen after this task are 0 … K−1."""
        return int(self.classes.max()) + 1


def source_tasks(problem: SeedProblem) -> Iterator[LabelledTask]:
    """Yield the source's train rows with their labels, each of weight 1; a class without a row is an error."""
    check_task_order(problem.tasks)
    labels, rows = problem.source.labels, problem.source.views["original"]
    for classes in problem.tasks:
        missing = np.setdiff1d(classes, labels)
        if len(missing):
            raise InputError(f"source: no train row of class {listed(missing)}")
        members = np.isin(labels, classes)
        yield LabelledTask(classes, rows[members], labels[members], np.ones(int(members.sum())))


def pseudo_labelled_tasks(problem: SeedProblem) -> Iterator[LabelledTask]:
    """Yield the target's train rows with `first_labels` and their weights: the kept ones of any weight.

    A class may be left with no row; what stands in for it is the method's to say.
    """
    for task, labels in zip(problem.target, first_labels(problem), strict=True):
        used = np.flatnonzero(labels.kept & (labels.weight > 0))
        rows = task.views["original"][used]
        yield LabelledTask(task.classes, rows, labels.label[used], labels.weight[used])
