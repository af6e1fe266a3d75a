"""Store the text embeddings of a domain's classes, with their logit scale."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pipeline.store.array_store import ArrayStore, open_arrays, unusable, write_arrays

SCHEMA = "referee-prompts/2"


@dataclass(frozen=True)
class Prompts:
    """Text embeddings of C classes."""

    text: npt.NDArray[np.float32]  # (C, d), unit norm, in the order of ``classes``
    logit_scale: float  # the scale s of eq. (1)
    provenance: dict[str, Any]  # the store's attributes, including ``classes`` (the folder names)

    @property
    def classes(self) -> list[str]:
        """The class (folder) names, in order."""
        return list(self.provenance["classes"])

    def sentences(self) -> dict[str, list[str]]:
        """Return the sentences that describe each class; empty lists if text embeddings were imported."""
        sentences = self.provenance.get("prompts") or []
        per_class = len(sentences) // len(self.classes)
        return {name: sentences[i * per_class : (i + 1) * per_class] for i, name in enumerate(self.classes)}

    def for_classes(self, names: Sequence[str]) -> Self:
        """Return the prompts of the classes ``names``, in this order."""
        provenance, sentences = {**self.provenance, "classes": list(names)}, self.sentences()
        if provenance.get("prompts") is not None:  # None for imported embeddings
            provenance["prompts"] = [sentence for name in names for sentence in sentences[name]]
        return replace(self, text=self.text[[self.classes.index(name) for name in names]], provenance=provenance)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of a store of these prompts."""
        return {"logit_scale": float(self.logit_scale), **self.provenance}


def write_prompts(path: Path, prompts: Prompts) -> None:
    """Write a prompt store."""
    write_arrays(path, SCHEMA, {"text": prompts.text[None]}, prompts.attributes)


def open_prompts(path: Path) -> Prompts:
    """Read and validate a prompt store."""
    store = open_arrays(path, SCHEMA)
    prompts = prompts_of(store, store.attributes)
    if not (np.isfinite(prompts.text).all() and math.isfinite(prompts.logit_scale)):
        raise unusable(path, "has a number that is not finite")
    return prompts


def prompts_of(store: ArrayStore, attributes: Mapping[str, Any]) -> Prompts:
    """Return the prompts in an array ``text`` and in ``attributes`` of a store."""
    provenance = dict(attributes)
    scale, classes = provenance.pop("logit_scale", None), provenance.get("classes")
    if not isinstance(scale, float) or not isinstance(classes, list) or any(type(name) is not str for name in classes):
        raise unusable(store.path, "its prompts are malformed")
    text = store.read("text", 0, shape=(len(classes), None))
    return Prompts(text.astype(np.float32), scale, provenance)
