"""The source model on disk: class means, classifier and scatter after each task, for every seed. No row, no label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from pipeline.errors import StoreError
from pipeline.method.source_model import SourceModel, SourceSpread
from pipeline.store.array_store import ArrayWriter, open_arrays, remedy, writing
from pipeline.store.classifier_store import classifier_arrays, read_classifiers

SCHEMA = "referee-source/4"


@dataclass(frozen=True)
class SourceWriter:
    """A source store under way.

    A class's mean does not change after its task (tasks have disjoint classes), so the last task's means are those of
    all tasks. Scatters, the bulk of the store, are written as they come: one is in memory at a time.
    """

    store: ArrayWriter
    seeds: int
    tasks: int
    _models: dict[int, list[SourceModel]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where the store is until it is whole."""
        return self.store.path.absolute()

    def reserve(self, members: int, D: int) -> None:
        """Make room for the scatters of models that are pooled with the target's."""
        shape = (self.seeds, self.tasks, members)
        self.store.reserve("scatter", (*shape, D * (D + 1) // 2), np.float32, leading=3)
        self.store.reserve("total", shape, np.float64, leading=2)
        self.store.reserve("degrees", shape, np.float64, leading=2)

    def write_seed(self, index: int, models: Iterable[SourceModel]) -> None:
        """Write the models after each task of the seed at ``index``; seeds may come from several threads."""
        self.keep(index, write_spreads(self.store.group, index, models))

    def keep(self, index: int, models: list[SourceModel]) -> None:
        """Take the models of a seed whose scatters are written."""
        self._models[index] = models

    def finish(self, classes: Sequence[str]) -> None:
        """Write what is small, once all seeds are there."""
        seeds = [self._models[index] for index in range(self.seeds)]
        last = [models[-1] for models in seeds]
        self.store.write(
            {
                **classifier_arrays([[model.classifier for model in models] for models in seeds]),
                "means": np.stack([model.means for model in last]),
                "embedding_means": np.stack([model.embedding_means for model in last]),
            }
        )
        seen = [len(model.classifier.b) for model in seeds[0]]
        self.store.describe({"classes": list(classes), "seen": seen})


def write_spreads(
    group: zarr.Group, index: int, models: Iterable[SourceModel]
) -> list[SourceModel]:
    """Write the scatters of a seed's models, each its own chunk; return the models without them."""
    kept = []
    for task, model in enumerate(models):
        for m, spread in enumerate(model.spreads):
            group["scatter"][index, task, m] = spread.triangle  # type: ignore[index]
        if model.spreads:
            group["total"][index, task] = [s.total for s in model.spreads]  # type: ignore[index]
            group["degrees"][index, task] = [s.degrees for s in model.spreads]  # type: ignore[index]
        kept.append(replace(model, spreads=()))
    return kept


def write_spreads_to(path: Path, index: int, models: Iterable[SourceModel]) -> list[SourceModel]:
    """As `write_spreads`, in another process than the writer's: ``path`` is its `SourceWriter.path`."""
    return write_spreads(zarr.open_group(path, mode="r+", zarr_format=3), index, models)


@contextmanager
def writing_source(
    path: Path, classes: Sequence[str], backbones: Mapping[str, Any], *, seeds: int, tasks: int
) -> Iterator[SourceWriter]:
    """Write a source store aside, seed by seed; it takes its place when all went well.

    backbones: what made the vision and language rows that the model rests on (`EmbeddingStore.backbone`).
    """
    with writing(path, SCHEMA) as store:
        store.describe({"backbones": backbones})
        writer = SourceWriter(store, seeds, tasks)
        yield writer
        writer.finish(classes)


def read_backbones(path: Path) -> dict[str, Any]:
    """Return what made the rows that a source model rests on, by the part they play: vision, language."""
    return open_arrays(path, SCHEMA).attribute("backbones", dict)


def read_source(
    path: Path, seed_index: int, classes: Sequence[str], *, with_scatter: bool = False
) -> Iterator[SourceModel]:
    """Yield the models after each task of one seed; ``classes`` are the target's, which must be the same.

    with_scatter: read each task's scatter when its model is asked for.
    """
    store = open_arrays(path, SCHEMA)
    if store.attribute("classes", list, of=str) != list(classes):
        raise StoreError(
            f"{path}: its classes differ from the target's; "
            "a problem's two domains must have the same class folders"
        )
    seen = store.attribute("seen", list, of=int)
    means, embedding_means = (store.read(name, seed_index) for name in ("means", "embedding_means"))
    classifiers = read_classifiers(store, seed_index, seen)
    if sorted(set(seen)) != seen or seen[-1:] != [len(classes)]:
        raise StoreError(f"{path}: its tasks do not end with all classes; {remedy(path)}")
    D = len(classifiers[0].W)
    store.expect("means", means, len(classes), D)
    store.expect("embedding_means", embedding_means, len(classes), None)

    def spreads(task: int) -> tuple[SourceSpread, ...]:
        total, degrees = (store.read(name, (seed_index, task)) for name in ("total", "degrees"))
        width = D // max(1, len(total))  # of one basis of the ensemble
        spreads = []
        for m, (n, rows) in enumerate(zip(total, degrees, strict=True)):
            triangle = store.read("scatter", (seed_index, task, m))
            store.expect("scatter", triangle, width * (width + 1) // 2)
            spreads.append(SourceSpread(triangle, float(n), float(rows)))
        return tuple(spreads)

    for task, (K, classifier) in enumerate(zip(seen, classifiers, strict=True)):
        of_task = spreads(task) if with_scatter else ()
        yield SourceModel(means[:K], classifier, embedding_means[:K], of_task)
