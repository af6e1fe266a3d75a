"""The source model on disk: class means, classifier and scatter after each task, for every seed. No row, no label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError
from pipeline.method.class_statistics import packed, unpacked
from pipeline.method.moments import Moments
from pipeline.method.source_model import SourceModel
from pipeline.store.array_store import ArrayStore, open_arrays, write_arrays
from pipeline.store.classifier_store import classifier_arrays, read_classifiers

SCHEMA = "referee-source/1"


def write_source(
    path: Path,
    seeds: Sequence[Sequence[SourceModel]],
    classes: Sequence[str],
    *,
    with_scatter: bool,
) -> None:
    """Write the models after each task (inner) of each seed (outer).

    A class's mean does not change after its task (tasks have disjoint classes), so the last task's means are those of
    all tasks. ``with_scatter``: also the D×D scatter after each task, for targets that pool it with their own; one
    triangle in float32, which a ridge of any size hides, and still the bulk of the store.
    """
    last = [tasks[-1] for tasks in seeds]
    arrays: dict[str, npt.NDArray[np.floating]] = {
        **classifier_arrays([[model.classifier for model in tasks] for tasks in seeds]),
        "means": np.stack([model.moments.means for model in last]),
        "embedding_means": np.stack([model.embedding_means for model in last]),
    }
    if with_scatter:
        moments = [[model.moments for model in tasks] for tasks in seeds]
        arrays["total"] = np.array([[m.total for m in tasks] for tasks in moments])
        arrays["degrees"] = np.array([[m.degrees for m in tasks] for tasks in moments])
        arrays["scatter"] = np.stack(
            [[packed(m.scatter).astype(np.float32) for m in tasks] for tasks in moments]
        )
    seen = [len(model.classifier.b) for model in seeds[0]]
    write_arrays(path, SCHEMA, arrays, {"classes": list(classes), "seen": seen})


def read_source(
    path: Path, seed_index: int, classes: Sequence[str], *, with_scatter: bool = False
) -> list[SourceModel]:
    """Return the models after each task of one seed; ``classes`` are the target's, which must be the same."""
    store = open_arrays(path, SCHEMA)
    if store.attributes["classes"] != list(classes):
        raise StoreError(
            f"{path}: its classes differ from the target's; "
            "a problem's two domains must have the same class folders"
        )
    seen = store.attributes["seen"]
    means, embedding_means = (store.read(name, seed_index) for name in ("means", "embedding_means"))
    scatters = (
        _scatters(store, seed_index) if with_scatter else [(np.zeros((0, 0)), 0.0, 0.0)] * len(seen)
    )
    return [
        SourceModel(Moments(means[:K], *spread), classifier, embedding_means[:K])
        for K, classifier, spread in zip(
            seen, read_classifiers(store, seed_index, seen), scatters, strict=True
        )
    ]


def _scatters(
    store: ArrayStore, seed_index: int
) -> list[tuple[npt.NDArray[np.float64], float, float]]:
    total, degrees = store.read("total", seed_index), store.read("degrees", seed_index)
    triangles = store.read("scatter", seed_index)
    return [
        (unpacked(triangle.astype(np.float64)), float(n), float(rows))
        for triangle, n, rows in zip(triangles, total, degrees, strict=True)
    ]
