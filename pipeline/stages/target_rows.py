"""What a target's stages read of it: embeddings of its views, cosines to the prompts, tasks and splits. No labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipeline.datasets.manifest_files import ClassRow, Tasks, read_classes, read_tasks
from pipeline.errors import StoreError
from pipeline.method.adaptation import TargetTask
from pipeline.method.prediction import CosineRows
from pipeline.method.row_ranges import RowRanges
from pipeline.method.task_features import IMAGES, Rows, blocks_of, subset
from pipeline.params import Params
from pipeline.stages import places
from pipeline.stages.task_classes import task_classes
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.prompt_store import open_prompts
from pipeline.store.source_store import read_backbones
from pipeline.store.stored_rows import rows_of

COSINE_BYTES = 64 * 2**20  # of cosines kept in memory

Matrix = npt.NDArray[np.floating]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class TargetRows:
    """All n rows of a target domain, read when they are needed where they are many."""

    views: Mapping[str, Rows]  # (n, d) each
    said: Rows  # (n, d) of the language model
    text: Matrix  # (C, d) prompts
    clip_scale: float
    tasks: Tasks
    classes: list[ClassRow]
    elsewhere: RowRanges | None = None  # who takes ranges of the rows if they are many

    @property
    def most_of_a_task(self) -> int:
        """The number of images of the largest task."""
        return int(np.bincount(self.tasks.task).max())

    @property
    def rows(self) -> int:
        """How many images there are."""
        return len(self.said)

    @property
    def class_names(self) -> list[str]:
        """The class (folder) names, in order."""
        return [row.class_name for row in self.classes]

    def train_rows(self, seed: int, task: int) -> Places:
        """Return the row numbers of a task's train images."""
        return np.flatnonzero((self.tasks.task == task) & ~self.tasks.is_test(seed))

    def test_rows(self, seed: int) -> Places:
        """Return the row numbers of the test images."""
        return np.flatnonzero(self.tasks.is_test(seed))

    def train_task(self, seed: int, task: int) -> TargetTask:
        """Return the unlabelled train images of a task."""
        rows = self.train_rows(seed, task)
        return TargetTask(
            task_classes(self.classes)[task],
            self.views_of(rows),
            self.cosine_rows(rows),
            subset(self.said, rows),
            self.elsewhere,
        )

    def views_of(self, rows: Places) -> dict[str, Rows]:
        """Return the views of some rows."""
        return {name: subset(x, rows) for name, x in self.views.items()}

    def cosines(self, rows: Places) -> npt.NDArray[np.float64]:
        """Return the cosines (n, C) of some rows' images to every class's prompt."""
        unread = CosineRows(subset(self.said, rows), self.text)
        parts = [unread[block] for block in blocks_of(len(rows), IMAGES)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.text)))

    def cosine_rows(self, rows: Places) -> npt.NDArray[np.float64] | CosineRows:
        """Return the cosines of some rows; of many, computed as they are asked for."""
        if len(rows) * len(self.text) * 8 <= COSINE_BYTES:
            return self.cosines(rows)
        return CosineRows(subset(self.said, rows), self.text)


def with_views(task: TargetTask, refined: Mapping[str, Matrix], place: Places) -> TargetTask:
    """Return the task with the rows ``place`` of ``refined`` views (n, d) in place of its own views of that name."""
    return replace(task, views={**task.views, **{name: x[place] for name, x in refined.items()}})


def read_target(
    params: Params,
    domain: str,
    views: Iterable[str],
    *,
    source: str | None = None,
    unread: bool = False,
) -> TargetRows:
    """Open a target domain: the vision model's ``views`` and the language model's original.

    source: the domain whose model the rows will meet; it must rest on rows of the same backbones.
    unread: leave all rows in the stores, for other processes to read.
    """
    folder = places.manifest_folder(domain)
    seen = open_embeddings(places.embeddings(domain, params.vision))
    said = open_embeddings(places.embeddings(domain, params.language))
    said.require({"rows_digest": seen.provenance["rows_digest"]})
    if source is not None:
        path = places.source_model(source)
        backbones = read_backbones(path)
        for store, part in ((seen, "vision"), (said, "language")):
            store.require_backbone(backbones.get(part, {}), path)
    prompts = open_prompts(places.prompts(domain))
    if "weights" in prompts.provenance:  # not of imported texts
        said.require({"weights": prompts.provenance["weights"]})
    classes = read_classes(folder / "classes.csv")
    if prompts.classes != [row.class_name for row in classes]:
        raise StoreError(
            f"{places.prompts(domain)}: its classes are not those of the manifest; run dvc repro"
        )
    tasks = read_tasks(folder / "tasks.csv", rows=seen.rows)
    if int(tasks.task.max()) > classes[-1].task:
        raise StoreError(f"{folder}/tasks.csv: has a task that classes.csv has not; run dvc repro")
    return TargetRows(
        {view: rows_of(seen, view, unread=unread) for view in views},
        rows_of(said, "original", unread=unread),
        prompts.text,
        prompts.logit_scale,
        tasks,
        classes,
    )
