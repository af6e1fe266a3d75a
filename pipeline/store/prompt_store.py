"""Text embeddings of a domain's classes, with the logit scale they belong to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import StoreError
from pipeline.store.array_store import open_arrays, remedy, write_arrays

SCHEMA = "referee-prompts/2"


@dataclass(frozen=True)
class Prompts:
    """Unit-norm text embeddings (C, d) in class order, and the scale s of eq. (1)."""

    text: npt.NDArray[np.float32]
    logit_scale: float
    provenance: dict[str, Any]

    @property
    def classes(self) -> list[str]:
        """The class (folder) names, in order."""
        return list(self.provenance["classes"])


def write_prompts(path: Path, prompts: Prompts) -> None:
    """Write aside, then rename."""
    attributes = {"logit_scale": float(prompts.logit_scale), **prompts.provenance}
    write_arrays(path, SCHEMA, {"text": prompts.text[None]}, attributes)


def open_prompts(path: Path) -> Prompts:
    """Read a whole prompt store, checked."""
    store = open_arrays(path, SCHEMA)
    attributes = dict(store.attributes)
    scale = store.attribute("logit_scale", float)
    classes = store.attribute("classes", list, of=str)
    del attributes["logit_scale"]
    text = store.read("text", 0).astype(np.float32)
    if text.ndim != 2 or len(text) != len(classes):
        raise StoreError(
            f"{path}: {text.shape} text embeddings for {len(classes)} classes; {remedy(path)}"
        )
    if not (np.isfinite(text).all() and math.isfinite(scale)):
        raise StoreError(f"{path}: holds a number that is not finite; {remedy(path)}")
    return Prompts(text, scale, attributes)
