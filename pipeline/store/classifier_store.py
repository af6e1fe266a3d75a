"""Classifiers after each task, for every seed, as arrays of a source or target store.

The classifier after task t has one column per class seen, so the columns of all tasks stand side by
side: W is (S, D, K) and b (S, K) with K = Σ_t K_t, float64: at gamma = 1e-4 scores are small
differences of large terms. The attribute ``classes_seen`` holds the K_t.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pipeline.method.kernel_lda import Classifier
from pipeline.store.array_store import ArrayStore, ArrayWriter
from pipeline.store.seal import unusable

CLASSES_SEEN = "classes_seen"


def write_classifiers(store: ArrayWriter, seeds: Sequence[Sequence[Classifier]]) -> None:
    """Write the classifiers after each task (inner) of each seed (outer)."""
    W = np.stack([np.hstack([task.W for task in tasks]) for tasks in seeds])
    b = np.stack([np.concatenate([task.b for task in tasks]) for tasks in seeds])
    store.write({"W": W, "b": b})
    store.describe({CLASSES_SEEN: [len(task.b) for task in seeds[0]]})


def read_classifiers(store: ArrayStore, seed_index: int) -> list[Classifier]:
    """Return the classifiers after each task of one seed: W (D, K_t), b (K_t,)."""
    classes_seen = store.attribute(CLASSES_SEEN, list, of=int)
    if not classes_seen or classes_seen != sorted(classes_seen) or classes_seen[0] < 1:
        raise unusable(store.path, f"its {CLASSES_SEEN} do not grow")
    W = store.read("W", seed_index, shape=(None, sum(classes_seen)))
    b = store.read("b", seed_index, shape=(sum(classes_seen),))
    edges = np.concatenate([[0], np.cumsum(classes_seen)])
    return [Classifier(W[:, start:stop], b[start:stop]) for start, stop in pairwise(edges)]
