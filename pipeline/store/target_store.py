"""The adapted model on disk: the classifier after each task and the final pseudo-labels, per seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.method.kernel_lda import Classifier
from pipeline.method.rejection import RejectionState
from pipeline.store.array_store import ArrayStore, open_arrays, writing
from pipeline.store.classifier_store import write_classifiers
from pipeline.store.pseudo_label_store import TaskLabels, add_pseudo_labels

SCHEMA = "referee-target/4"
REJECTION = ("rejection_embedding", "rejection_moments", "rejection_histogram")


def write_target(
    path: Path,
    classifiers: Sequence[Sequence[Classifier]],
    labels: Sequence[Sequence[TaskLabels]],
    *,
    rows: int,
    attributes: Mapping[str, Any],
    rejections: Sequence[Sequence[RejectionState]] = (),
) -> None:
    """Write the classifiers and the final labels of each task (inner) of each seed (outer).

    ``rows`` is the number of images of the target, ``attributes`` are problem, classes, method (the options)
    and bases (their digests). ``rejections`` are the states after each task, where images are rejected.
    """
    with writing(path, SCHEMA) as store:
        store.describe(attributes)
        write_classifiers(store, classifiers)
        add_pseudo_labels(store, labels, rows)
        if any(rejections):
            store.write(_rejection_arrays(rejections))


def _rejection_arrays(seeds: Sequence[Sequence[RejectionState]]) -> dict[str, npt.NDArray[Any]]:
    """Return Σg (S, T, d + 1), moments (S, T, 5, K) and histograms (S, T, bins); a class not met has zeros."""
    K = seeds[0][-1].moments.shape[1]
    pad = [[np.pad(s.moments, ((0, 0), (0, K - s.moments.shape[1]))) for s in t] for t in seeds]
    embedding = [[state.embedding for state in tasks] for tasks in seeds]
    histogram = [[state.histogram for state in tasks] for tasks in seeds]
    return dict(zip(REJECTION, map(np.array, (embedding, pad, histogram)), strict=True))


def read_rejections(store: ArrayStore, seed_index: int) -> list[RejectionState] | None:
    """Return what rejects images after each task of a seed; None if the model rejects none."""
    if REJECTION[0] not in store.arrays:
        return None
    read = (store.read(name, seed_index) for name in REJECTION)
    return [RejectionState(*arrays) for arrays in zip(*read, strict=True)]


def open_target(path: Path) -> ArrayStore:
    """Open an adapted model, for `read_classifiers` and `read_pseudo_labels`."""
    return open_arrays(path, SCHEMA)
