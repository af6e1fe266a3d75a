"""Yield the rows that a peer is fitted to: source rows with true labels, or target rows with pseudo-labels.

Both are generators over tasks, so a method reads each task once and in order. Embeddings are the backbone's unchanged
outputs for the original view.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import first_labels
from pipeline.errors import InputError, listed
from pipeline.method.rows import Labels, Matrix, Vector64, as_array
from pipeline.problem.seed import Seed

VIEW = "original"  # peers and heads do not use the frequency-aware views


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Labelled rows of one task."""

    classes: Labels  # (C_t,) the task's class set, in ascending order
    rows: Matrix  # (n, d) embeddings
    labels: Labels  # (n,) class of each row, one of ``classes``
    weights: Vector64  # (n,) weight of each row, above 0

    @property
    def classes_seen(self) -> int:
        """Number of classes after this task, numbered from 0."""
        return int(self.classes.max()) + 1


def source_tasks(seed: Seed) -> Iterator[TaskRows]:
    """Yield the source's labelled train rows of each task with weight 1; raise InputError if a class has no row."""
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

    Omit rows that were not kept or have no weight. A class may be left without rows; each method's docstring says how
    it handles this.
    """
    for task, labels in zip(seed.target.tasks, first_labels(seed), strict=True):
        index = np.flatnonzero(labels.kept & (labels.weight > 0))
        rows = np.asarray(task.views[VIEW][index])
        yield TaskRows(np.sort(task.classes), rows, labels.label[index], labels.weight[index])


def target_test_rows(seed: Seed) -> Matrix:
    """Return the embeddings (n, d) of the target's test rows."""
    return as_array(seed.target.test.views[VIEW])


Fitted = TypeVar("Fitted")
Fallback = Callable[[], Sequence[Fitted]]
Fit = Callable[[Seed, Iterable[TaskRows], Fallback[Fitted] | None], list[Fitted]]


def peer_methods(
    name: str,
    title: str,
    fit: Fit[Fitted],
    predict: Callable[[Seed, list[Fitted]], list[Labels]],
    *,
    source_samples: bool = False,
) -> dict[str, ComparedMethod]:
    """Return both forms of a peer by name, for the METHODS of its file.

    Parameters
    ----------
    name : str
        Name of the form that is fitted to the source; the other form's name ends in ``-pseudo``.
    title : str
        Name in tables.
    fit : callable
        ``fit(seed, tasks, fallback)`` learns the tasks in order and returns one fitted object per task. ``fallback()``
        returns those of the source, to replace classes without a pseudo-labelled row; call it only if there are any.
        It is None while the source itself is being fitted.
    predict : callable
        ``predict(seed, fitted)`` returns the classes (n,) of the test rows after each task.
    source_samples : bool, default False
        Whether ``fit`` keeps rows (exemplars, medoids). If so, neither form is source-free.

    Returns
    -------
    dict of str to ComparedMethod
        Both forms; the ``-pseudo`` form uses nothing from the source except what ``fit`` returned.
    """

    def source(seed: Seed) -> list[Fitted]:
        return seed.shared(f"{name}: source", lambda: fit(seed, source_tasks(seed), None))

    def pseudo(seed: Seed) -> list[Fitted]:
        return fit(seed, pseudo_labelled_tasks(seed), lambda: source(seed))

    return {
        name: ComparedMethod(lambda seed: predict(seed, source(seed)), title, "peer", source_samples),
        f"{name}-pseudo": ComparedMethod(
            lambda seed: predict(seed, pseudo(seed)), f"{title}, pseudo-labels", "peer", source_samples
        ),
    }
