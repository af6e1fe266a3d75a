"""Prepare the data that a transductive peer adapts to: unlabelled rows of each task, and a prior over their classes.

StatA, TransCLIP and ZLaP were published for CLIP and for one set of images, all of which they label together. Here the
set is the unlabelled train rows of a task. Test rows are classified by the results of the tasks, so that each test
image is judged alone, as by every other method. Each peer has two forms:

- ``NAME`` works in CLIP's space with CLIP's probabilities as the prior, as published.
- ``NAME-pseudo`` works in the vision model's space. The prior is the p̂ of `first_labels`, the same for all ``-pseudo``
  peers, and source means replace text embeddings. Test rows have no prior, since only train rows have these labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.labelled_tasks import VIEW, source_tasks, target_test_rows
from pipeline.comparison.methods import nearest_class_mean
from pipeline.comparison.referee_variants import first_labels
from pipeline.errors import InputError
from pipeline.method.rows import BLOCK_IMAGES, Labels, Matrix, Matrix64, Rows, as_array, row_blocks, unit_rows
from pipeline.method.zero_shot import clip_probabilities
from pipeline.problem.seed import Seed

NEAREST = 4  # largest number of neighbours that a method uses


@dataclass(eq=False)
class UnlabelledTask:
    """Rows of a task, without labels."""

    classes: Labels  # (c,) the task's class set, in ascending order
    rows: Matrix64  # (n, d) unit embeddings
    prior: Matrix64  # (n, c) prior ŷ: probabilities of the task's classes
    anchors: Matrix64  # (c, d) unit embeddings of the classes: texts or source means

    def __post_init__(self) -> None:
        # the nearest other rows of each row and their cosines, (n, `NEAREST`), best first; computed eagerly because
        # methods run in threads
        self.neighbours = nearest(self.rows, self.rows, NEAREST, same=True)

    @property
    def classes_seen(self) -> int:
        """Number of classes after this task, numbered from 0."""
        return int(self.classes.max()) + 1


@dataclass(frozen=True, eq=False)
class Space:
    """The tasks and the test rows in one of the two spaces."""

    tasks: Sequence[UnlabelledTask]
    test: Matrix64  # (n, d) unit embeddings
    test_logits: Matrix64  # (n, C) prior of the test rows: logits of all classes; 0 without a prior
    text: Matrix64 | None  # (C, d) unit text embeddings; None in the vision model's space


def clip_space(seed: Seed) -> Space:
    """Return the tasks and test rows in CLIP's space, for the form without ``-pseudo``."""
    target, tasks = seed.target, []
    text = _clip_rows(target.text)
    for task in target.tasks:
        classes = np.sort(task.classes)
        prior = clip_probabilities(task.cosines, target.clip_scale, classes)
        tasks.append(UnlabelledTask(classes, _clip_rows(task.clip), prior, text[classes]))
    logits = target.clip_scale * as_array(target.test.cosines)
    return Space(tasks, _clip_rows(target.test.clip), np.asarray(logits, dtype=np.float64), text)


def vision_space(seed: Seed) -> Space:
    """Return the tasks and test rows in the vision model's space, for the ``-pseudo`` form."""
    means = seed.shared("nearest-class-mean: source", lambda: nearest_class_mean.fit(seed, source_tasks(seed), None))
    tasks = []
    for task, labels, centres in zip(seed.target.tasks, first_labels(seed), means, strict=True):
        order = np.argsort(task.classes)  # the columns of p̂ are in the task's own order
        rows = unit_rows(as_array(task.views[VIEW]))
        tasks.append(UnlabelledTask(task.classes[order], rows, labels.fused[:, order], unit_rows(centres)))
    test = unit_rows(target_test_rows(seed))
    C = sum(len(classes) for classes in seed.tasks)
    return Space(tasks, test, np.zeros((len(test), C)), None)


def _clip_rows(rows: Rows | None) -> Matrix64:
    """Return CLIP's embeddings of images or classes, scaled to length 1."""
    if rows is None:
        raise InputError("the target lacks CLIP's embeddings of images or text, which this method needs")
    return unit_rows(as_array(rows))


def transductive_methods(name: str, title: str, run: Callable[[Space], list[Labels]]) -> dict[str, ComparedMethod]:
    """Return both forms of a transductive peer by name, for the METHODS of its file.

    ``run`` adapts to the tasks of a `Space` in order and returns the classes (n,) of the test rows after each task.
    """

    def form(space: Callable[[Seed], Space], title: str) -> ComparedMethod:
        return ComparedMethod(lambda seed: run(seed.shared(space, lambda: space(seed))), title, "peer")

    return {
        name: form(clip_space, f"{title}, CLIP alone"),
        f"{name}-pseudo": form(vision_space, f"{title}, pseudo-labels"),
    }


def nearest(rows: Matrix, among: Matrix, k: int, *, same: bool = False) -> tuple[Labels, Matrix64]:
    """Return the indices and cosines (n, k) of the k rows of ``among`` (m, d) nearest to each row, best first.

    All rows have length 1. ``same`` says that both are the same rows, of which none is its own neighbour. If there are
    fewer than k candidates, all are returned.

    Examples
    --------
    >>> nearest(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.6, 0.8], [1.0, 0.0]]), 2)
    (array([[2, 1]]), array([[1. , 0.6]]))
    """
    k = max(min(k, len(among) - same), 0)
    index = np.empty((len(rows), k), dtype=np.intp)
    cosines = np.empty((len(rows), k))
    for block in row_blocks(len(rows), BLOCK_IMAGES) if k else ():
        cosine = rows[block] @ among.T
        if same:
            cosine[np.arange(len(block)), block] = -np.inf
        best = np.argpartition(-cosine, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(cosine, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        index[block] = np.take_along_axis(best, order, axis=1)
        cosines[block] = np.take_along_axis(values, order, axis=1)
    return index, cosines


def edges(index: Labels, values: Matrix64, columns: int) -> Any:
    """Return the sparse matrix (n, columns) of ``values`` (n, k) at the columns ``index`` (n, k)."""
    n, k = index.shape
    start = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, dtype=np.intp)
    return scipy.sparse.csr_array((values.ravel(), index.ravel(), start), shape=(n, columns))
