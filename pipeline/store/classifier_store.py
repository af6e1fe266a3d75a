"""Classifiers after each task, for every seed, and what else a model is made of, as arrays of one store.

The classifier after task t has one column per class seen, so the columns of all tasks stand side by side: W is
(S, D, K) and b (S, K) with K = Σ_t K_t, float64: at gamma = 1e-4 scores are small differences of large terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipeline.method.kernel_lda import Classifier
from pipeline.store.array_store import ArrayStore

Float = npt.NDArray[np.float64]


def classifier_arrays(seeds: Sequence[Sequence[Classifier]]) -> dict[str, Float]:
    """Return W (S, D, K) and b (S, K) of the classifiers after each task (inner) of each seed (outer)."""
    return {
        "W": np.stack([np.hstack([task.W for task in tasks]) for tasks in seeds]),
        "b": np.stack([np.concatenate([task.b for task in tasks]) for tasks in seeds]),
    }


def read_classifiers(store: ArrayStore, seed_index: int, seen: Sequence[int]) -> list[Classifier]:
    """Return the classifiers after each task; ``seen`` are the numbers of classes seen after each."""
    W, b = store.read("W", seed_index), store.read("b", seed_index)
    store.expect("W", W, None, sum(seen))
    store.expect("b", b, sum(seen))
    edges = np.concatenate([[0], np.cumsum(seen)])
    return [Classifier(W[:, start:stop], b[start:stop]) for start, stop in pairwise(edges)]
