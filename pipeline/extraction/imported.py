"""Import embeddings computed elsewhere (``library: imported``) from .npy, .npz or stores of another project.

An .npy is in manifest order. Rows of an .npz are matched to the manifest by its array ``paths`` (DOMAIN/CLASS/FILE, of
which CLASS/FILE decides) or, without it, by order. A wrong number of rows, an unknown path or a NaN is an error.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from pipeline.array_files import PATHS, is_domain, read_array, read_paths
from pipeline.datasets.prompts import spoken
from pipeline.errors import InputError, counted, listed
from pipeline.method.rows import Index, Matrix, unit_rows
from pipeline.store.embedding_store import EmbeddedView, open_embeddings
from pipeline.store.prompt_store import Prompts, open_prompts

TEXTS = "text.npz"  # file of the text embeddings in a folder
STORE = ".zarr"  # suffix of a store of another project


def embeddings_file(origin: Path, domain: str) -> Path:
    """Return the path of a domain's embeddings: ``origin``, or DOMAIN.zarr, .npz or .npy in it."""
    if not origin.is_dir() or origin.suffix == STORE:
        return origin
    for suffix in (STORE, ".npz", ".npy"):
        if (origin / f"{domain}{suffix}").exists():
            return origin / f"{domain}{suffix}"
    raise InputError(f"{origin}: holds none of {domain}.zarr, {domain}.npz and {domain}.npy")


def import_store(
    path: Path, rows_digest: str, views: Iterable[str]
) -> tuple[dict[str, EmbeddedView], dict[str, object]]:
    """Return (views, provenance) of another project's store of the same images in the same order.

    ``rows_digest`` is the digest of this project's manifest.
    """
    store = open_embeddings(path)
    if store.provenance.get("rows_digest") != rows_digest:
        raise InputError(
            f"{path}: extracted from other images than those of the manifest ({store.rows} rows, rows_digest "
            f"{store.provenance.get('rows_digest')}, here {rows_digest}); images and their order must be the same"
        )
    provenance = {key: value for key, value in store.provenance.items() if key not in ("schema", "views")}
    shape = (store.rows, store.width)
    imported = {v: EmbeddedView(*shape, str(store.dtype(v)), store.settings(v), store.blocks(v)) for v in views}
    return imported, provenance


def import_views(
    file: Path,
    domain: str,
    images: Sequence[str],
    views: Iterable[str],
    *,
    arrays: Mapping[str, str],
    dtype: str,
    shared_by: Sequence[str] = (),
) -> dict[str, EmbeddedView]:
    """Read embeddings from a file in the order of the manifest's ``images``, to be stored as ``dtype``.

    An .npz has one array per view; ``arrays`` maps a view (or "paths") to its array if the names differ. A file without
    paths can hold only one domain; ``shared_by`` lists the domains that use this file.
    """
    paths = read_paths(file, arrays.get(PATHS, PATHS))
    if paths is None and len(shared_by) > 1:
        raise InputError(
            f"{file}: has no paths, so it can hold one domain only; make the model's origin a folder "
            f"with one file per domain ({', '.join(f'{name}.npy' for name in shared_by)})"
        )
    order = np.arange(len(images)) if paths is None else row_order(file, paths, images, domain)
    file_rows = len(images if paths is None else paths)
    imported = {}
    for view in views:
        name = None if file.suffix == ".npy" else arrays.get(view, view)
        rows = import_rows(file, name, order, file_rows=file_rows, dtype=dtype)
        n, d = rows.shape
        imported[view] = EmbeddedView(n, d, dtype, {"imported_as": name}, [rows])
    return imported


def row_order(file: Path, paths: Sequence[str], images: Sequence[str], domain: str) -> Index:
    """Return the file's row number (n,) of each manifest path in ``images``; raise InputError if one has none."""
    row_of: dict[tuple[str, ...], int] = {}
    for row, (first, *rest) in enumerate(PurePosixPath(path).parts for path in paths):
        if is_domain(first, domain) and (earlier := row_of.setdefault(tuple(rest), row)) != row:
            raise InputError(f"{file}: two rows for {'/'.join((domain, *rest))} (rows {earlier} and {row})")
    depths = sorted({len(key) for key in row_of})

    def key_of(path: str) -> tuple[str, ...]:
        """Return the end CLASS/…/FILE of a manifest path that is in the file; parent folders may differ."""
        parts = PurePosixPath(path).parts
        return next((parts[-depth:] for depth in depths if parts[-depth:] in row_of), parts)

    keys = [key_of(path) for path in images]
    if unknown := [path for path, key in zip(images, keys, strict=True) if key not in row_of]:
        raise InputError(
            f"{file}: no row for {len(unknown)} of the {len(images)} images of {domain}: {listed(unknown, most=3)}"
        )
    if extra := ["/".join((domain, *key)) for key in sorted(set(row_of) - set(keys))]:
        raise InputError(f"{file}: {counted(len(extra), 'path')} unknown to the manifest: {listed(extra, most=3)}")
    return np.array([row_of[key] for key in keys], dtype=np.intp)


def import_rows(file: Path, name: str | None, order: Index, *, file_rows: int, dtype: str) -> Matrix:
    """Return the embeddings (n, d) of one array, checked, in manifest order and as ``dtype``.

    ``order`` (n,) has the file's row number of each image; ``file_rows`` is the number of rows it must have.
    """
    array = read_array(file, name)
    label = f"{file}: array {name!r}" if name else str(file)
    if array.dtype.kind != "f":
        raise InputError(f"{label} holds {array.dtype}, not floating-point numbers")
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{label} has shape {array.shape}; it needs one row of numbers per image")
    if len(array) != file_rows:
        raise InputError(f"{label} has {counted(len(array), 'row')} where {file_rows} are needed")
    values = array[order]
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        row = int(order[bad.argmax()])
        raise InputError(f"{label}: row {row} is not finite (NaN or infinity); {bad.sum()} such rows")
    with np.errstate(over="ignore"):  # the store rejects infinity and names the remedy
        return values.astype(dtype)


def import_prompts(origin: Path, domain: str, classes: Sequence[str], arrays: Mapping[str, str]) -> Prompts:
    """Return text embeddings in the order of ``classes`` from the file or folder ``origin``.

    The file has the arrays ``text``, ``class_names`` and ``logit_scale``, which ``arrays`` may map to other names. A
    folder may have prompts/DOMAIN.zarr of another project instead.
    """
    store = origin / "prompts" / f"{domain}{STORE}"
    if store.is_dir():
        prompts = open_prompts(store)
        mismatched = sorted(set(classes) ^ set(prompts.classes))
        if mismatched:
            raise InputError(f"{store}: has other classes than {domain}: {listed(mismatched, most=3)}")
        return prompts.for_classes(classes)
    file = origin / TEXTS if origin.is_dir() else origin
    names, text, scale = (read_array(file, arrays.get(name, name)) for name in ("class_names", "text", "logit_scale"))
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{file}: class_names must be a list of strings, not {names.dtype} {names.shape}")
    if text.ndim != 2 or len(text) != len(names) or text.dtype.kind != "f":
        raise InputError(f"{file}: text {text.dtype} {text.shape} does not fit {len(names)} class names")
    if not np.isfinite(text).all():
        raise InputError(f"{file}: a text embedding is not finite (NaN or infinity)")
    is_number = scale.size == 1 and scale.dtype.kind in "fiu"
    if not is_number or not 0 < float(scale.reshape(-1)[0]) < math.inf:
        raise InputError(f"{file}: logit_scale must be one positive number")
    order = [_row_of(file, name, list(map(str, names))) for name in classes]
    provenance = {"classes": list(classes), "model": {"library": "imported", "file": file.name}}
    return Prompts(unit_rows(text[order]).astype(np.float32), float(scale.reshape(-1)[0]), provenance)


def _row_of(file: Path, name: str, names: Sequence[str]) -> int:
    """Return the row of a class, which may be named like its folder or as spoken; raise InputError unless unique."""
    rows = [row for row, entry in enumerate(names) if spoken(entry).lower() == spoken(name).lower()]
    if len(rows) != 1:
        raise InputError(f"{file}: {len(rows)} text embeddings for class {name!r}; it needs one")
    return rows[0]
