"""One seed of a problem from the caches, for stages that compare: everything a method may see, in memory.

These stages read source rows and labels; they adapt nothing that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.comparison.problem import SeedProblem, SourceRows, TestRows
from pipeline.datasets.manifest_files import Tasks, read_classes, read_tasks
from pipeline.errors import StoreError
from pipeline.method.class_statistics import Labels
from pipeline.method.continual_metrics import accuracy_matrix
from pipeline.method.random_fourier_features import Basis
from pipeline.method.task_features import Rows, subset
from pipeline.params import Params
from pipeline.stages import places
from pipeline.stages.labels_of import read_truth
from pipeline.stages.target_rows import TargetRows, read_target
from pipeline.stages.task_classes import task_classes
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.stored_rows import rows_of

VIEWS = ("original", "zeros", "rand")  # of which a method may use what is there


@dataclass(frozen=True)
class ProblemCaches:
    """What the caches hold of a problem, for every seed."""

    source_views: dict[str, Rows]
    source_clip: Rows
    source_labels: Labels
    source_tasks: Tasks
    target: TargetRows
    truth: Labels  # of the target's rows: to score with, never given to a method

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds."""
        return self.target.tasks.seeds

    def of_seed(self, index: int, basis: Basis) -> SeedProblem:
        """Return what a method may see of a seed."""
        seed = self.seeds[index]
        train = np.flatnonzero(~self.source_tasks.is_test(seed))
        views = {name: _array(subset(x, train)) for name, x in self.source_views.items()}
        test = self.target.test_rows(seed)
        return SeedProblem(
            basis=basis,
            source=SourceRows(
                views, self.source_labels[train], _array(subset(self.source_clip, train))
            ),
            target=[
                self.target.train_task(seed, task)
                for task in range(len(task_classes(self.target.classes)))
            ],
            test=TestRows(
                {name: _array(x) for name, x in self.target.views_of(test).items()},
                self.target.cosines(test),
                _array(subset(self.target.said, test)),
            ),
            clip_scale=self.target.clip_scale,
            seed=seed,
        )

    def accuracies(self, index: int, predicted: Sequence[Labels]) -> npt.NDArray[np.float64]:
        """Return the accuracy matrix (T, T) of a seed's predictions after each task."""
        test = self.target.test_rows(self.seeds[index])
        return accuracy_matrix(list(predicted), self.truth[test], self.target.tasks.task[test])


def read_problem(params: Params, name: str, *, unread: bool = False) -> ProblemCaches:
    """Open the caches of a problem; unread: leave all rows in the stores, for other processes to read."""
    problem = params.problems[name]
    store = open_embeddings(places.embeddings(problem.source, params.vision))
    labels, digest = read_truth(places.manifest_folder(problem.source))
    said = open_embeddings(places.embeddings(problem.source, params.language))
    for opened in (store, said):
        opened.require({"rows_digest": digest})
    truth, of_target = read_truth(places.manifest_folder(problem.target))
    seen = open_embeddings(places.embeddings(problem.target, params.vision))
    seen.require({"rows_digest": of_target})
    seen.require_backbone(store.backbone, store.path)
    heard = open_embeddings(places.embeddings(problem.target, params.language))
    heard.require_backbone(said.backbone, said.path)
    there = seen.views
    target = read_target(
        params, problem.target, [view for view in VIEWS if view in there], unread=unread
    )
    _check_classes(places.manifest_folder(problem.source), target)
    return ProblemCaches(
        {view: rows_of(store, view, unread=unread) for view in VIEWS if view in store.views},
        rows_of(said, "original", unread=unread),
        labels,
        read_tasks(places.manifest_folder(problem.source) / "tasks.csv", rows=store.rows),
        target,
        truth,
    )


def _check_classes(source: Path, target: TargetRows) -> None:
    """Refuse a source whose classes or tasks are not the target's: labels are paired by their numbers."""
    if list(read_classes(source / "classes.csv")) != list(target.classes):
        raise StoreError(
            f"{source}/classes.csv: its classes or tasks differ from the target's; "
            "a problem's two domains must have the same class folders and classes_per_task"
        )


def _array(rows: Rows) -> npt.NDArray[np.floating]:
    return np.asarray(rows[np.arange(len(rows))])
