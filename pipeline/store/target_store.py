"""Store the adapted model: per seed the classifier after each task, and the final pseudo-labels.

The pseudo-labels are the arrays ``label``, ``weight``, ``kept`` (S, n) and ``fused`` (S, n, largest task), in the
order of the target's manifest. Rows outside a seed's training split have the label `NO_LABEL`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_lda import Classifier
from pipeline.method.rejection import RejectionState
from pipeline.method.rows import Index
from pipeline.store.array_store import ArrayStore, ArrayWriter, open_arrays, unusable, writing

SCHEMA = "referee-target/4"
NO_LABEL = -1
CLASSES_SEEN = "classes_seen"
REJECTION = ("rejection_embedding", "rejection_moments", "rejection_histogram")

TaskLabels = tuple[Index, PseudoLabels]  # row numbers (n,) of a task's images, and their pseudo-labels


@dataclass(frozen=True, eq=False)
class AdaptedSeed:
    """The results of a seed, an entry per task."""

    classifiers: list[Classifier] = field(default_factory=list)
    labels: list[TaskLabels] = field(default_factory=list)  # final pseudo-labels
    rejections: list[RejectionState] = field(default_factory=list)  # empty if the model never rejects images


def write_target(path: Path, seeds: Sequence[AdaptedSeed], *, rows: int, attributes: Mapping[str, Any]) -> None:
    """Write an adapted model.

    ``rows`` is the number of target images; ``attributes`` are problem, classes, method (options) and bases (digests).
    """
    with writing(path, SCHEMA) as store:
        store.attributes.update(attributes)
        write_classifiers(store, [seed.classifiers for seed in seeds])
        store.write(_label_arrays([seed.labels for seed in seeds], rows))
        if any(seed.rejections for seed in seeds):
            store.write(_rejection_arrays([seed.rejections for seed in seeds]))


def _label_arrays(seeds: Sequence[Sequence[TaskLabels]], rows: int) -> dict[str, npt.NDArray[Any]]:
    S = len(seeds)
    width = max(labels.fused.shape[1] for tasks in seeds for _, labels in tasks)
    label = np.full((S, rows), NO_LABEL, dtype=np.int32)
    weight = np.zeros((S, rows))
    kept = np.zeros((S, rows), dtype=np.bool_)
    fused = np.full((S, rows, width), np.nan)
    for s, tasks in enumerate(seeds):
        for index, labels in tasks:
            label[s, index] = labels.label
            weight[s, index] = labels.weight
            kept[s, index] = labels.kept
            fused[s, index, : labels.fused.shape[1]] = labels.fused
    return {"label": label, "weight": weight, "kept": kept, "fused": fused}


def _rejection_arrays(seeds: Sequence[Sequence[RejectionState]]) -> dict[str, npt.NDArray[Any]]:
    """Return Σg (S, T, d + 1), moments (S, T, 5, K) and histograms (S, T, bins); classes not seen yet have zeros."""
    K = seeds[0][-1].moments.shape[1]
    moments = [[np.pad(s.moments, ((0, 0), (0, K - s.moments.shape[1]))) for s in tasks] for tasks in seeds]
    embedding = [[state.embedding for state in tasks] for tasks in seeds]
    histogram = [[state.histogram for state in tasks] for tasks in seeds]
    return dict(zip(REJECTION, map(np.array, (embedding, moments, histogram)), strict=True))


def read_rejections(store: ArrayStore, seed_index: int) -> list[RejectionState] | None:
    """Return the rejection state after each task of a seed, or None if the model never rejects images."""
    if REJECTION[0] not in store.arrays:
        return None
    read = (store.read(name, seed_index) for name in REJECTION)
    return [RejectionState(*arrays) for arrays in zip(*read, strict=True)]


def open_target(path: Path) -> ArrayStore:
    """Open an adapted model, for `read_classifiers` and `read_pseudo_labels`."""
    return open_arrays(path, SCHEMA)


def read_pseudo_labels(store: ArrayStore, seed_index: int, rows: int) -> PseudoLabels:
    """Return the pseudo-labels of one seed for all ``rows`` images of the target."""
    label, weight, kept = (store.read(name, seed_index, shape=(rows,)) for name in ("label", "weight", "kept"))
    return PseudoLabels(label, store.read("fused", seed_index, shape=(rows, None)), weight, kept)


def write_classifiers(store: ArrayWriter, seeds: Sequence[Sequence[Classifier]]) -> None:
    """Write the classifiers after each task (inner) of each seed (outer) to a source or target store.

    The classifier after task t has one column per class seen, and the columns of all tasks are concatenated: W is
    (S, D, K) and b (S, K) with K = Σ_t K_t. They are float64 because at gamma = 1e-4 scores are small differences of
    large terms. The attribute ``classes_seen`` has the K_t.
    """
    W = np.stack([np.hstack([task.W for task in tasks]) for tasks in seeds])
    b = np.stack([np.concatenate([task.b for task in tasks]) for tasks in seeds])
    store.write({"W": W, "b": b})
    store.attributes[CLASSES_SEEN] = [len(task.b) for task in seeds[0]]


def read_classifiers(store: ArrayStore, seed_index: int) -> list[Classifier]:
    """Return the classifiers after each task of one seed: W (D, K_t), b (K_t,)."""
    classes_seen = store.attribute(CLASSES_SEEN, list, item_type=int)
    if not classes_seen or classes_seen != sorted(classes_seen) or classes_seen[0] < 1:
        raise unusable(store.path, f"its {CLASSES_SEEN} are not increasing")
    W = store.read("W", seed_index, shape=(None, sum(classes_seen)))
    b = store.read("b", seed_index, shape=(sum(classes_seen),))
    edges = np.concatenate([[0], np.cumsum(classes_seen)])
    return [Classifier(W[:, start:stop], b[start:stop]) for start, stop in pairwise(edges)]
