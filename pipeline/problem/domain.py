"""Domains: manifest, embeddings and prompts, each opened on first use and checked once.

Adapting uses a `Domain`, which has no labels. The source and evaluation use a `LabelledDomain`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from pipeline import paths
from pipeline.datasets.label_spaces import known_classes
from pipeline.datasets.manifest_files import iterate_images, read_images, read_labels, rows_digest
from pipeline.datasets.task_files import (
    CLASSES,
    TASKS,
    ClassRow,
    SpaceRow,
    Tasks,
    read_classes,
    read_label_spaces,
    read_tasks,
)
from pipeline.errors import StoreError
from pipeline.method.continual_metrics import UNKNOWN
from pipeline.method.rows import Index, Rows, TargetTask, UnlabelledRows, as_array, take
from pipeline.method.zero_shot import cosine_rows
from pipeline.store.embedding_store import EmbeddingStore, open_embeddings, rows_of
from pipeline.store.prompt_store import Prompts, open_prompts

COSINE_BYTES = 64 * 2**20  # larger arrays of cosines are computed when indexed instead of kept in memory
READING = Lock()  # seeds run in threads: the second one waits for a view instead of reading it again


@dataclass(eq=False)
class Domain:
    """A domain without labels: everything that adapting may read of a target."""

    name: str  # the domain's key in suite.yaml
    vision_model: str  # key of the model whose embeddings are opened
    language_model: str = ""  # key of the CLIP model; empty in stages that read neither its embeddings nor prompts
    lazy: bool = False  # leave all rows in the stores for other processes; otherwise small views are read into memory
    root: Path = Path()  # the project's folder
    # In a label space, the classes are those of the source, and the images those whose classes the target has. None
    # means the closed set.
    label_space: str | None = None
    hidden: bool = False  # any class may be in any task (`classes: seen`)

    def __getstate__(self) -> dict[str, object]:
        """Pickle only the fields, with an absolute path; the receiving process opens the stores again."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"root": self.root.absolute()}

    @property
    def manifest(self) -> Path:
        """The folder of the domain's manifest."""
        return self.root / paths.manifest(self.name)

    @cached_property
    def vision(self) -> EmbeddingStore:
        """The vision model's embeddings, one array per view."""
        return open_embeddings(self.root / paths.embeddings(self.name, self.vision_model))

    @cached_property
    def clip(self) -> EmbeddingStore:
        """CLIP's embeddings of the same images."""
        store = open_embeddings(self.root / paths.embeddings(self.name, self.language_model))
        store.require({"rows_digest": self.vision.provenance["rows_digest"]})
        return store

    def require_backbones(self, backbones: Mapping[str, Mapping[str, object]], path: Path) -> None:
        """Raise StoreError if the rows were made by other backbones than the store at ``path`` was."""
        self.vision.require_backbone(backbones.get("vision", {}), path)
        self.clip.require_backbone(backbones.get("language", {}), path)

    @cached_property
    def prompts(self) -> Prompts:
        """Text embeddings of the classes in order of arrival, by the same weights as the image embeddings."""
        path = self.root / paths.prompts(self.name)
        prompts = open_prompts(path)
        if "weights" in prompts.provenance:  # absent if the texts were imported
            self.clip.require({"weights": prompts.provenance["weights"]})
        if sorted(prompts.classes) != sorted(row.class_name for row in self.all_classes):
            raise StoreError(f"{path}: its classes are not those of {self.manifest}; run dvc repro")
        return prompts.for_classes(self.class_names)

    @cached_property
    def all_classes(self) -> list[ClassRow]:
        """The classes of the closed set in order of arrival, each with its task."""
        return read_classes(self.manifest)

    @cached_property
    def label_spaces(self) -> dict[str, list[SpaceRow]]:
        """The classes of each label space, by its name, with the domains that have them."""
        return read_label_spaces(self.manifest)

    @cached_property
    def classes(self) -> list[ClassRow]:
        """The classes that can be predicted, in order of arrival, each with its task."""
        if self.label_space is None:
            return self.all_classes
        if self.label_space not in self.label_spaces:
            raise StoreError(f"{self.manifest / CLASSES}: has no label space {self.label_space!r}; run dvc repro")
        return known_classes(self.label_spaces[self.label_space])

    @cached_property
    def tasks(self) -> Tasks:
        """The task and split of every row."""
        tasks = read_tasks(self.manifest)
        if len(tasks.task) != self.vision.rows:
            raise StoreError(
                f"{self.vision.path}: has {self.vision.rows} rows, but {self.manifest / TASKS} {len(tasks.task)}; "
                "run dvc repro"
            )
        if int(tasks.task.max()) > self.all_classes[-1].task:
            raise StoreError(f"{self.manifest / TASKS}: has a task that is not in classes.csv; run dvc repro")
        return tasks if self.label_space is None else replace(tasks, task=self._tasks_in_space(tasks))

    def _tasks_in_space(self, tasks: Tasks) -> Index:
        """Return the task (n,) of every image of a target, or -1 for images outside the label space."""
        return np.asarray(tasks.spaces[str(self.label_space)])

    @property
    def estimate_classes(self) -> bool:
        """Whether a task's classes are only candidates, some of which may have no images."""
        return self.hidden or self.label_space is not None

    @property
    def class_names(self) -> list[str]:
        """The class names, in order of arrival."""
        return [row.class_name for row in self.classes]

    @property
    def class_sets(self) -> list[Index]:
        """The numbers of the classes of each task."""
        tasks = np.array([row.task for row in self.classes])
        return [np.flatnonzero(tasks == task) for task in range(int(tasks.max()) + 1)]

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds for which images were split into train and test; a ``seed_index`` is a position in them."""
        return self.tasks.seeds

    @property
    def largest_task(self) -> int:
        """The number of images of the largest task."""
        return int(np.bincount(self.tasks.task[self.tasks.task >= 0]).max())

    def train_index(self, seed: int, task: int | None = None) -> Index:
        """Return the row numbers of a seed's train images, of one task or of all; ``seed`` is one of `seeds`."""
        in_task = self.tasks.task >= 0 if task is None else self.tasks.task == task
        return np.flatnonzero(~self.tasks.test_mask(seed) & in_task)

    def test_index(self, seed: int) -> Index:
        """Return the row numbers of a seed's test images; ``seed`` is one of `seeds`."""
        return np.flatnonzero(self.tasks.test_mask(seed) & (self.tasks.task >= 0))

    def vision_rows(self, view: str) -> Rows:
        """Return all rows (n, d) of a view."""
        return self._rows(self.vision, view)

    @property
    def clip_rows(self) -> Rows:
        """All of CLIP's rows (n, d')."""
        return self._rows(self.clip, "original")

    def _rows(self, store: EmbeddingStore, view: str) -> Rows:
        key = (store.path, view)
        with READING:
            if key not in self._opened:
                self._opened[key] = rows_of(store, view, lazy=self.lazy)
            return self._opened[key]

    @cached_property
    def _opened(self) -> dict[tuple[Path, str], Rows]:
        return {}

    def views_at(self, index: Index, views: Iterable[str]) -> dict[str, Rows]:
        """Return the rows at ``index`` by view."""
        return {view: take(self.vision_rows(view), index) for view in views}

    def rows(self, index: Index, views: Iterable[str]) -> UnlabelledRows:
        """Return everything that a method may read of the images at ascending row numbers ``index`` (n,)."""
        clip_rows = take(self.clip_rows, index)
        cosines: Rows = cosine_rows(clip_rows, self.prompts.text)
        if len(cosines) * len(self.prompts.text) * 8 <= COSINE_BYTES and not self.lazy:
            cosines = as_array(cosines)
        return UnlabelledRows(self.views_at(index, views), cosines, clip_rows)

    def task(self, seed: int, task: int, views: Iterable[str]) -> TargetTask:
        """Return the unlabelled train images of a task, with the task's class set."""
        classes = np.arange(len(self.classes)) if self.hidden else self.class_sets[task]
        return TargetTask(**vars(self.rows(self.train_index(seed, task), views)), classes=classes)


def paths_of_rows(domain: Domain) -> list[str]:
    """Return the path of every image; not a method of `Domain`, because a path may reveal the image's class."""
    images = read_images(domain.manifest)
    domain.vision.require({"rows_digest": rows_digest(image.sha256 for image in images)})
    return [image.path for image in images]


class LabelledDomain(Domain):
    """A domain with labels: a source, or a target to evaluate on."""

    @cached_property
    def labels(self) -> npt.NDArray[np.int64]:
        """The class number (n,) of every row, or `UNKNOWN` if its class cannot be predicted."""
        labels, digest = read_labels(self.manifest)
        self.vision.require({"rows_digest": digest})
        if self.label_space is None:
            return labels
        number = {row.class_name: row.label for row in self.classes}
        numbers = [number.get(row.class_name, UNKNOWN) for row in self.all_classes]
        return np.array(numbers, dtype=np.int64)[labels]

    @cached_property
    def image_paths(self) -> list[str]:
        """The path of every image."""
        return paths_of_rows(self)

    def images_at(self, rows: set[int]) -> dict[int, tuple[str, str]]:
        """Return path and sha256 of the images at ``rows``, by row."""
        images = enumerate(iterate_images(self.manifest))
        return {row: (image.path, image.sha256) for row, image in images if row in rows}

    def test_index(self, seed: int, *, unknown: bool = False) -> Index:
        """Return the row numbers of a seed's test images, by default without those of unknown classes."""
        test = super().test_index(seed)
        if self.label_space is None or unknown:
            return test
        return np.asarray(test[self.labels[test] != UNKNOWN])


class SourceDomain(LabelledDomain):
    """A domain used as a source, without images of the classes that only the target has."""

    def _tasks_in_space(self, tasks: Tasks) -> Index:  # noqa: ARG002  tasks of a target
        task_of_class = np.array([*(row.task for row in self.classes), -1])  # the last entry is for UNKNOWN
        return np.asarray(task_of_class[self.labels])
