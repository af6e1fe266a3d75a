"""The source model on disk: class means, classifier and scatter after each task, for every seed.

No row and no label of the source is in it.

==================  ====================  =========================================================
``W``, ``b``        (S, D, K), (S, K)     classifiers of all D features, see `write_classifiers`
``means``           (S, C, r)             class means less the pivot, along the r directions kept
``embedding_means`` (S, C, d)             class means of the unit embeddings
``scatter``         (S, T, r(r+1)/2)      lower triangle by columns, float32; only if pooled
``total``,          (S, T)                weight and degrees of freedom of the scatter; only if
``degrees``                               pooled
==================  ====================  =========================================================

r is D, or the number of directions that count (`method/kernel_directions.py`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import StoreError, counted
from pipeline.method.rows import Vector64
from pipeline.method.source_model import SourceModel, SourceScatter
from pipeline.store.array_layout import stated_layout
from pipeline.store.array_store import ArrayStore, ArrayWriter, open_arrays, writing
from pipeline.store.seal import unusable
from pipeline.store.target_store import read_classifiers, write_classifiers

SCHEMA = "referee-source/6"
_WRITTEN = np.zeros(0, np.float32)


@dataclass(frozen=True)
class SourceWriter:
    """A source store that is being written.

    Scatters, the bulk of the store, are written as they come, so that one is in memory at a time.
    A class's mean does not change after its task (tasks have disjoint classes), so the last task's
    means are those of all tasks.
    """

    store: ArrayWriter

    @property
    def path(self) -> Path:
        """Where the store is until it is whole, for `write_scatters`."""
        return self.store.path.absolute()

    def reserve_scatter(self, seeds: int, tasks: int, width: int) -> None:
        """Make room for the scatters of models that are pooled with the target's."""
        self.store.reserve("scatter", (seeds, tasks, width * (width + 1) // 2), np.float32, leading=2)

    def finish(self, seeds: Sequence[Sequence[SourceModel]]) -> None:
        """Write everything but the scatters: the models of each seed, as `write_scatters` returned them."""
        last = [models[-1] for models in seeds]
        write_classifiers(self.store, [[model.classifier for model in models] for models in seeds])
        arrays = {
            "means": np.stack([model.means for model in last]),
            "embedding_means": np.stack([model.embedding_means for model in last]),
        }
        scatters = [[model.scatter for model in models if model.scatter] for models in seeds]
        if any(scatters):
            arrays["total"] = np.array([[s.total for s in tasks] for tasks in scatters])
            arrays["degrees"] = np.array([[s.degrees for s in tasks] for tasks in scatters])
        self.store.write(arrays)


@contextmanager
def writing_source(path: Path, classes: Sequence[str], backbones: Mapping[str, Any]) -> Iterator[SourceWriter]:
    """Write a source store aside; it is renamed to ``path`` when all went well and `SourceWriter.finish` was called.

    ``classes`` are the C class names in the order of the labels, ``backbones`` the `EmbeddingStore.backbone` of
    the "vision" and "language" rows that the model rests on.
    """
    with writing(path, SCHEMA) as store:
        store.attributes.update(classes=list(classes), backbones=backbones)
        yield SourceWriter(store)


def write_scatters(path: Path, index: int, models: Iterable[SourceModel]) -> list[SourceModel]:
    """Write the scatters of the seed at ``index``, in any process; return the models without their triangles.

    ``path`` is `SourceWriter.path`; every scatter is a chunk of its own, so seeds may be written at once. Of
    ``models``, after each task, each is dropped before the next is asked for.
    """
    kept = []
    for task, model in enumerate(models):
        scatter = model.scatter
        if scatter is not None:
            metadata = json.loads((path / "scatter" / "zarr.json").read_text(encoding="utf-8"))
            stated_layout(path / "scatter", metadata).write((index, task), scatter.triangle)
            scatter = replace(scatter, triangle=_WRITTEN)
        kept.append(replace(model, scatter=scatter))
    return kept


def read_backbones(path: Path) -> dict[str, Any]:
    """Return what made the rows that a source model rests on: "vision" and "language"."""
    return open_arrays(path, SCHEMA).attribute("backbones", dict)


def read_source(
    path: Path, seed_index: int, classes: Sequence[str], *, with_scatter: bool = False
) -> Iterator[SourceModel]:
    """Yield the source model after each task of one seed, with its scatter if asked for.

    The target's ``classes`` must be the same.
    """
    store = open_arrays(path, SCHEMA)
    if store.attribute("classes", list, of=str) != list(classes):
        raise StoreError(
            f"{path}: its classes differ from the target's; a problem's two domains must have the same class folders"
        )
    classifiers = read_classifiers(store, seed_index)
    if len(classifiers[-1].b) != len(classes):
        raise unusable(path, "its tasks do not end with all classes")
    C, T = len(classes), len(classifiers)
    means = store.read("means", seed_index, shape=(C, None))
    embedding_means = store.read("embedding_means", seed_index, shape=(C, None))
    for task, classifier in enumerate(classifiers):
        K = len(classifier.b)
        scatter = None
        if with_scatter:
            scatter = _read_scatter(store, seed_index, task, T=T, width=means.shape[1])
        yield SourceModel(means[:K], classifier, embedding_means[:K], scatter)


def read_class_means(path: Path, seed_index: int) -> dict[str, Vector64]:
    """Return the mean (d,) of the unit embeddings of every class of a source model, in the order of its labels."""
    store = open_arrays(path, SCHEMA)
    classes = store.attribute("classes", list, of=str)
    return dict(zip(classes, store.read("embedding_means", seed_index, shape=(len(classes), None)), strict=True))


def read_source_after(path: Path, seed_index: int, task: int | None) -> SourceModel:
    """Return the source model of one seed after a task (from 0; None: the last), with its scatter if it has one."""
    store = open_arrays(path, SCHEMA)
    models = list(read_source(path, seed_index, store.attribute("classes", list, of=str)))
    at = len(models) - 1 if task is None else task
    if at >= len(models):
        raise StoreError(f"{path}: has {counted(len(models), 'task')}, and no task {at + 1}")
    if "scatter" not in store.arrays:
        return models[at]
    width = int(models[at].means.shape[1])
    return replace(models[at], scatter=_read_scatter(store, seed_index, at, T=len(models), width=width))


def _read_scatter(store: ArrayStore, seed_index: int, task: int, *, T: int, width: int) -> SourceScatter:
    total, degrees = (store.read(name, seed_index, shape=(T,)) for name in ("total", "degrees"))
    triangle = store.read("scatter", seed_index, task, shape=(width * (width + 1) // 2,))
    return SourceScatter(triangle, float(total[task]), float(degrees[task]))
