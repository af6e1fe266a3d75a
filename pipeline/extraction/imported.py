"""Embeddings that were computed elsewhere (``library: imported``), brought into stores of ours."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.array_files import read_array, read_paths
from pipeline.datasets.manifest_files import ImageRow
from pipeline.datasets.prompts import spoken
from pipeline.errors import InputError, listed
from pipeline.method.rows import unit_rows
from pipeline.store.embedding_store import ViewRows
from pipeline.store.imported_embeddings import STORE, embeddings_file, import_views, texts_file
from pipeline.store.prompt_store import Prompts, open_prompts


def import_embeddings(
    origin: Path,
    domain: str,
    images: Sequence[ImageRow],
    views: Sequence[str],
    *,
    arrays: Mapping[str, str],
    stored_as: str,
    domains: Sequence[str],
) -> tuple[dict[str, ViewRows], Path]:
    """Return the rows of a domain by view, in the order of its manifest, and the file they come from.

    ``origin`` is a .npy or .npz file, or a folder with one per domain; ``domains`` are all of the suite: a file without
    paths can belong to one only. ``arrays`` names the views' arrays in an .npz where they are called otherwise.
    """
    file = embeddings_file(origin, domain)
    has_paths = read_paths(file, arrays.get("paths", "paths")) is not None
    if not has_paths and file == origin and len(domains) > 1:
        raise InputError(
            f"{file}: has no paths, so it can hold one domain only; let the model's origin be a folder "
            f"with one file per domain ({', '.join(f'{name}.npy' for name in domains)})"
        )
    paths = [image.path for image in images]
    return import_views(file, domain, paths, views, arrays=arrays, dtype=stored_as), file


def import_prompts(origin: Path, domain: str, classes: Sequence[str], arrays: Mapping[str, str]) -> Prompts:
    """Return text embeddings, in the order of ``classes``, from the file or folder ``origin``.

    The file has the arrays ``text``, ``class_names`` and ``logit_scale``, which ``arrays`` may call otherwise; a folder
    may hold prompts/DOMAIN.zarr of another project instead.
    """
    store = origin / "prompts" / f"{domain}{STORE}"
    if store.is_dir():
        prompts = open_prompts(store)
        other = sorted(set(classes) ^ set(prompts.classes))
        if other:
            raise InputError(f"{store}: has other classes than {domain}: {listed(other, most=3)}")
        return prompts.of(classes)
    file = texts_file(origin)

    def array(name: str) -> npt.NDArray[Any]:
        return read_array(file, arrays.get(name, name))

    names, text, scale = array("class_names"), array("text"), array("logit_scale")
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{file}: class_names must be a list of strings, not {names.dtype} {names.shape}")
    if text.ndim != 2 or len(text) != len(names) or text.dtype.kind != "f":
        raise InputError(f"{file}: text {text.dtype} {text.shape} does not fit {len(names)} class names")
    if not np.isfinite(text).all():
        raise InputError(f"{file}: a text embedding is not finite (NaN or infinity)")
    is_number = scale.size == 1 and scale.dtype.kind in "fiu"
    if not is_number or not 0 < float(scale.reshape(-1)[0]) < math.inf:
        raise InputError(f"{file}: logit_scale must be one positive number")
    order = [_row_of(file, name, [str(known) for known in names]) for name in classes]
    provenance = {"classes": list(classes), "model": {"library": "imported", "file": file.name}}
    return Prompts(unit_rows(text[order]).astype(np.float32), float(scale.reshape(-1)[0]), provenance)


def _row_of(file: Path, name: str, names: Sequence[str]) -> int:
    """Return the one row of a class, whose name may be written as a folder or as people say it."""
    rows = [row for row, known in enumerate(names) if spoken(known).lower() == spoken(name).lower()]
    if len(rows) != 1:
        raise InputError(f"{file}: {len(rows)} text embeddings for class {name!r}; it needs one")
    return rows[0]
