"""Refined views on disk: per seed (pseudo-labels differ) and view the embeddings; none if off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.store.array_store import ArrayStore, open_arrays, write_arrays

SCHEMA = "referee-refined/3"

Matrix = npt.NDArray[np.floating]


def write_refined(path: Path, views: Mapping[str, Matrix], attributes: Mapping[str, Any]) -> None:
    """Write arrays (S, n, d) by view, NaN in the rows of test images; no view if refinement is off."""
    write_arrays(path, SCHEMA, views, attributes)


def open_refined(path: Path) -> ArrayStore:
    """Open what `write_refined` wrote."""
    return open_arrays(path, SCHEMA)


def read_refined(
    store: ArrayStore, seed_index: int, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Matrix]:
    """Return the refined views (n, d) of one seed, of those views whose ``shapes`` are given; none if off."""
    return {
        name: store.read(name, seed_index, shape=shape)
        for name, shape in shapes.items()
        if name in store.arrays
    }
