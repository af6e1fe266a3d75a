"""Refined views on disk: per seed (their pseudo-labels differ) and view the embeddings (n, d); or the word "off"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError
from pipeline.method.task_features import Rows
from pipeline.store.array_store import ArrayStore, open_arrays, remedy, write_arrays

SCHEMA = "referee-refined/2"

Matrix = npt.NDArray[np.floating]


def write_off(path: Path, problem: str) -> None:
    """Write the store of a problem whose views are left as they are."""
    write_arrays(path, SCHEMA, {}, {"problem": problem, "off": True})


def write_refined(path: Path, views: Mapping[str, Matrix], attributes: Mapping[str, Any]) -> None:
    """Write arrays (S, n, d) by view; rows of test images are NaN."""
    write_arrays(path, SCHEMA, views, {**attributes, "off": False, "views": list(views)})


@dataclass(frozen=True)
class RefinedViews:
    """A store opened for reading."""

    store: ArrayStore

    def of_seed(self, seed_index: int, like: Mapping[str, Rows]) -> dict[str, Matrix]:
        """Return the refined views (n, d) of one seed, none if off; ``like``: the views they take the place of."""
        if self.store.attribute("off", bool):
            return {}
        names: Sequence[str] = self.store.attribute("views", list, of=str)
        refined = {name: self.store.read(name, seed_index) for name in names if name in like}
        for name, rows in refined.items():
            if rows.shape != like[name].shape:
                raise StoreError(
                    f"{self.store.path}/{name}: {rows.shape} refined rows for {like[name].shape} embeddings; "
                    f"{remedy(self.store.path)}"
                )
        return refined


def open_refined(path: Path) -> RefinedViews:
    """Open what `write_off` or `write_refined` wrote."""
    return RefinedViews(open_arrays(path, SCHEMA))
