"""Text embeddings of a domain's classes, with the logit scale they belong to: one small Zarr group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

from pipeline.errors import StoreError
from pipeline.write_aside import write_aside

SCHEMA = "referee-prompts/1"


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
    with write_aside(path) as aside:
        attributes = {"schema": SCHEMA, "logit_scale": prompts.logit_scale, **prompts.provenance}
        group = zarr.create_group(aside, zarr_format=3, attributes=attributes)
        array = group.create_array(
            "text",
            shape=prompts.text.shape,
            dtype="float32",
            chunks=prompts.text.shape,
            compressors=Crc32cCodec(),
            fill_value=float("nan"),
        )
        array[:] = prompts.text


def open_prompts(path: Path) -> Prompts:
    """Read a whole prompt store, checked."""
    remedy = f"restore it with `dvc checkout {path}` or make it again with `dvc repro`"
    if not path.is_dir():
        raise StoreError(f"{path}: no such store; run dvc repro or dvc pull")
    try:
        group = zarr.open_group(path, mode="r", zarr_format=3)
        attributes = dict(group.attrs)
        text = np.asarray(group["text"][:])  # type: ignore[index]
    except (ValueError, KeyError, TypeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path}: damaged ({reason}); {remedy}") from None
    if attributes.pop("schema", None) != SCHEMA:
        raise StoreError(f"{path}: not a {SCHEMA} store; {remedy}")
    if not np.isfinite(text).all():
        raise StoreError(f"{path}: rows are missing; {remedy}")
    scale = attributes.pop("logit_scale")
    return Prompts(text.astype(np.float32), float(scale), attributes)  # type: ignore[arg-type]
