"""Pseudo-labels on disk: per seed and row of the target's manifest, label, weight, gate, fusion.

Arrays ``label``, ``weight``, ``kept`` (S, n) and ``fused`` (S, n, largest task). A row that is no
train image of a seed has the label `NO_LABEL`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.method.adaptation import PseudoLabels
from pipeline.store.array_store import ArrayStore, ArrayWriter, writing

SCHEMA = "referee-pseudo-labels/2"
NO_LABEL = -1

Index = npt.NDArray[np.intp]
TaskLabels = tuple[Index, PseudoLabels]  # row numbers (n,) of a task's images, and their labels


def write_pseudo_labels(path: Path, seeds: Sequence[Sequence[TaskLabels]], rows: int, problem: str) -> None:
    """Write the labels of each task (inner) of each seed (outer) of a target of ``rows`` images."""
    with writing(path, SCHEMA) as store:
        store.describe({"problem": problem})
        add_pseudo_labels(store, seeds, rows)


def add_pseudo_labels(store: ArrayWriter, seeds: Sequence[Sequence[TaskLabels]], rows: int) -> None:
    """Write the arrays of pseudo-labels into a store of any kind."""
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
    store.write({"label": label, "weight": weight, "kept": kept, "fused": fused})


def read_pseudo_labels(store: ArrayStore, seed_index: int, rows: int | None = None) -> PseudoLabels:
    """Return the labels of one seed for all images of the target, ``rows`` where that is given.

    `labels_at` chooses those of a task.
    """
    label, weight, kept = (store.read(name, seed_index, shape=(rows,)) for name in ("label", "weight", "kept"))
    return PseudoLabels(label, store.read("fused", seed_index, shape=(rows, None)), weight, kept)


def labels_at(labels: PseudoLabels, index: Index, classes: int) -> PseudoLabels:
    """Return the labels of a task: its images' row numbers ``index`` (n,), its number of classes."""
    return PseudoLabels(
        labels.label[index].astype(np.intp), labels.fused[index, :classes], labels.weight[index], labels.kept[index]
    )
