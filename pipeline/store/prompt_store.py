"""Text embeddings of a domain's classes, with the logit scale they belong to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.store.array_store import open_arrays, write_arrays
from pipeline.store.seal import unusable

SCHEMA = "referee-prompts/2"


@dataclass(frozen=True)
class Prompts:
    """Text embeddings of C classes."""

    text: npt.NDArray[np.float32]  # (C, d), unit norm, in the order of ``classes``
    logit_scale: float  # the scale s of eq. (1)
    provenance: dict[str, Any]  # the store's attributes, ``classes`` (the folder names) among them

    @property
    def classes(self) -> list[str]:
        """The class (folder) names, in order."""
        return list(self.provenance["classes"])

    def beginning_with(self, first: Sequence[str]) -> Prompts:
        """Return the same prompts with the classes of ``first`` first, in that order, then the others."""
        names = [*first, *(name for name in self.classes if name not in first)]
        index = [self.classes.index(name) for name in names]
        provenance = {**self.provenance, "classes": names}
        sentences = provenance.get("prompts")  # those of a class side by side; imported texts have none
        if sentences is not None:
            of_class = np.reshape(sentences, (len(names), -1))
            provenance["prompts"] = of_class[index].ravel().tolist()
        return Prompts(self.text[index], self.logit_scale, provenance)

    def first(self, count: int) -> Prompts:
        """Return the prompts of the first ``count`` classes."""
        if count == len(self.classes):
            return self
        provenance = {**self.provenance, "classes": self.classes[:count]}
        if (sentences := provenance.get("prompts")) is not None:
            provenance["prompts"] = sentences[: count * len(sentences) // len(self.classes)]
        return Prompts(self.text[:count], self.logit_scale, provenance)


def write_prompts(path: Path, prompts: Prompts) -> None:
    """Write a prompt store aside, then rename it."""
    attributes = {"logit_scale": float(prompts.logit_scale), **prompts.provenance}
    write_arrays(path, SCHEMA, {"text": prompts.text[None]}, attributes)


def open_prompts(path: Path) -> Prompts:
    """Read a whole prompt store, checked."""
    store = open_arrays(path, SCHEMA)
    scale = store.attribute("logit_scale", float)
    classes = store.attribute("classes", list, of=str)
    text = store.read("text", 0, shape=(len(classes), None)).astype(np.float32)
    if not (np.isfinite(text).all() and math.isfinite(scale)):
        raise unusable(path, "holds a number that is not finite")
    provenance = {key: value for key, value in store.attributes.items() if key != "logit_scale"}
    return Prompts(text, scale, provenance)
