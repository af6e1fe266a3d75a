"""Store the source model: class means, classifier and scatter after each task, for every seed.

It has no rows and no labels of the source.

==================  ====================  =========================================================
``W``, ``b``        (S, D, K), (S, K)     classifiers on all D features, see `write_classifiers`
``means``           (S, C, r)             class means minus the pivot, along the r directions kept
``embedding_means`` (S, C, d)             class means of the unit embeddings
``scatter``         (S, T, r(r+1)/2)      lower triangle by columns, float32; only if pooled
``total``,          (S, T)                weight and degrees of freedom of the scatter; only if
``degrees``                               pooled
==================  ====================  =========================================================

r is D, or the number of directions that matter (`method/kernel_directions.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import StoreError, counted
from pipeline.method.rows import Vector64
from pipeline.method.source_model import SourceModel, SourceScatter
from pipeline.store.array_layout import ArrayLayout
from pipeline.store.array_store import ArrayStore, ArrayWriter, open_arrays, unusable
from pipeline.store.target_store import read_classifiers, write_classifiers

SCHEMA = "referee-source/6"
_WRITTEN = np.zeros(0, np.float32)  # placeholder for a triangle that is already on disk


def reserve_scatters(store: ArrayWriter, seeds: int, tasks: int, width: int) -> ArrayLayout:
    """Create the array of scatters, which are pooled with the target's, for `write_scatters`.

    They are most of the store and written one by one, so that only one is in memory at a time.
    """
    return store.reserve("scatter", (seeds, tasks, width * (width + 1) // 2), np.float32, leading=2)


def write_scatters(scatters: ArrayLayout | None, seed_index: int, models: Iterable[SourceModel]) -> list[SourceModel]:
    """Write the scatters of a seed and return the models, one per task, without their triangles.

    Every scatter is a separate chunk, so several processes may write seeds at the same time. Each model is released
    before the next one is requested.
    """
    stripped = []
    for task, model in enumerate(models):
        scatter = model.scatter
        if scatters is not None and scatter is not None:
            scatters.write((seed_index, task), scatter.triangle)
            scatter = replace(scatter, triangle=_WRITTEN)
        stripped.append(replace(model, scatter=scatter))
    return stripped


def write_models(
    store: ArrayWriter, classes: Sequence[str], backbones: Mapping[str, Any], seeds: Sequence[Sequence[SourceModel]]
) -> None:
    """Write everything except the scatters: the models of each seed, as returned by `write_scatters`.

    ``classes`` are the C class names in label order, ``backbones`` the `EmbeddingStore.backbone` of the "vision" and
    "language" rows used. A class's mean does not change after its task (tasks have disjoint classes), so the last
    task's means are the means after every task.
    """
    store.attributes.update(classes=list(classes), backbones=backbones)
    write_classifiers(store, [[model.classifier for model in models] for models in seeds])
    arrays = {name: np.stack([getattr(models[-1], name) for models in seeds]) for name in ("means", "embedding_means")}
    scatters = [[model.scatter for model in models if model.scatter] for models in seeds]
    if any(scatters):
        for name in ("total", "degrees"):
            arrays[name] = np.array([[getattr(scatter, name) for scatter in tasks] for tasks in scatters])
    store.write(arrays)


def read_backbones(path: Path) -> dict[str, Any]:
    """Return the "vision" and "language" backbones of a source model."""
    return open_arrays(path, SCHEMA).attribute("backbones", dict)


def read_source(
    path: Path, seed_index: int, classes: Sequence[str], *, with_scatter: bool = False
) -> Iterator[SourceModel]:
    """Yield the source model after each task of one seed, by default without the scatter, which is large.

    Raise StoreError unless it has the target's ``classes``.
    """
    store = open_arrays(path, SCHEMA)
    if store.attribute("classes", list, item_type=str) != list(classes):
        raise StoreError(
            f"{path}: its classes differ from the target's; both domains of a problem must have the same class folders"
        )
    models = _models(store, seed_index)
    for task in range(len(models)):
        yield _with_scatter(store, seed_index, models, task) if with_scatter else models[task]


def read_source_after(path: Path, seed_index: int, task: int | None) -> SourceModel:
    """Return the source model of one seed after a task (from 0; None for the last), with its scatter if stored."""
    store = open_arrays(path, SCHEMA)
    models = _models(store, seed_index)
    index = len(models) - 1 if task is None else task
    if index >= len(models):
        raise StoreError(f"{path}: has {counted(len(models), 'task')}, and no task {index + 1}")
    return _with_scatter(store, seed_index, models, index) if "scatter" in store.arrays else models[index]


def read_class_means(path: Path, seed_index: int) -> dict[str, Vector64]:
    """Return the mean unit embedding (d,) of each class of a source model, in label order."""
    store = open_arrays(path, SCHEMA)
    classes = store.attribute("classes", list, item_type=str)
    return dict(zip(classes, store.read("embedding_means", seed_index, shape=(len(classes), None)), strict=True))


def _models(store: ArrayStore, seed_index: int) -> list[SourceModel]:
    """Return a seed's model after each task, without scatters."""
    C, classifiers = len(store.attribute("classes", list, item_type=str)), read_classifiers(store, seed_index)
    if len(classifiers[-1].b) != C:
        raise unusable(store.path, "its tasks do not end with all classes")
    means, embedding_means = (store.read(name, seed_index, shape=(C, None)) for name in ("means", "embedding_means"))
    return [SourceModel(means[: len(c.b)], c, embedding_means[: len(c.b)]) for c in classifiers]


def _with_scatter(store: ArrayStore, seed_index: int, models: Sequence[SourceModel], task: int) -> SourceModel:
    width = models[task].means.shape[1]
    total, degrees = (store.read(name, seed_index, shape=(len(models),)) for name in ("total", "degrees"))
    triangle = store.read("scatter", seed_index, task, shape=(width * (width + 1) // 2,))
    return replace(models[task], scatter=SourceScatter(triangle, float(total[task]), float(degrees[task])))
