"""Pseudo-labels on disk: per seed and row of the target's manifest, the label, weight, gate and fused probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.method.adaptation import PseudoLabels
from pipeline.store.array_store import ArrayStore

SCHEMA = "referee-pseudo-labels/2"
NO_LABEL = -1  # a test image, which is never labelled

Placed = tuple[
    npt.NDArray[np.intp], PseudoLabels
]  # row numbers (n,) of a task's images, and their labels


def label_arrays(
    seeds: Sequence[Sequence[Placed]], rows: int
) -> Mapping[str, npt.NDArray[np.generic]]:
    """Return label, weight, kept (S, rows) and fused (S, rows, most classes of a task) of every seed's tasks."""
    S = len(seeds)
    width = max(labels.fused.shape[1] for tasks in seeds for _, labels in tasks)
    label = np.full((S, rows), NO_LABEL, dtype=np.int32)
    weight = np.zeros((S, rows))
    kept = np.zeros((S, rows), dtype=np.bool_)
    fused = np.full((S, rows, width), np.nan)
    for s, tasks in enumerate(seeds):
        for place, labels in tasks:
            label[s, place] = labels.label
            weight[s, place] = labels.weight
            kept[s, place] = labels.kept
            fused[s, place, : labels.fused.shape[1]] = labels.fused
    return {"label": label, "weight": weight, "kept": kept, "fused": fused}


@dataclass(frozen=True)
class SeedLabels:
    """One seed's pseudo-labels, for all rows."""

    label: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float64]
    kept: npt.NDArray[np.bool_]
    fused: npt.NDArray[np.float64]

    def of(self, place: npt.NDArray[np.intp], classes: int) -> PseudoLabels:
        """Return the labels of the images at row numbers ``place``, of a task of so many classes."""
        return PseudoLabels(
            self.label[place].astype(np.intp),
            self.fused[place, :classes],
            self.weight[place],
            self.kept[place],
        )


def read_labels_of_seed(store: ArrayStore, seed_index: int, rows: int | None = None) -> SeedLabels:
    """Read one seed, of a target of so many ``rows`` where that is known."""
    label, weight, kept, fused = (
        store.read(name, seed_index) for name in ("label", "weight", "kept", "fused")
    )
    for name, values in (("label", label), ("weight", weight), ("kept", kept)):
        store.expect(name, values, rows)
    store.expect("fused", fused, rows, None)
    return SeedLabels(label, weight, kept, fused)
