"""The adapted model on disk: the classifier after each task and the final pseudo-labels, per seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.method.kernel_lda import Classifier
from pipeline.store.array_store import ArrayStore, open_arrays, writing
from pipeline.store.classifier_store import write_classifiers
from pipeline.store.pseudo_label_store import TaskLabels, add_pseudo_labels

SCHEMA = "referee-target/4"


def write_target(
    path: Path,
    classifiers: Sequence[Sequence[Classifier]],
    labels: Sequence[Sequence[TaskLabels]],
    *,
    rows: int,
    attributes: Mapping[str, Any],
) -> None:
    """Write the classifiers and the final labels of each task (inner) of each seed (outer).

    ``rows`` is the number of images of the target, ``attributes`` are problem, classes, method (the options)
    and bases (their digests).
    """
    with writing(path, SCHEMA) as store:
        store.describe(attributes)
        write_classifiers(store, classifiers)
        add_pseudo_labels(store, labels, rows)


def open_target(path: Path) -> ArrayStore:
    """Open an adapted model, for `read_classifiers` and `read_pseudo_labels`."""
    return open_arrays(path, SCHEMA)
