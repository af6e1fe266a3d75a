"""Embeddings computed elsewhere: a .npy in manifest order, or an .npz with arrays by name and, optionally, paths.

Rows are matched to the manifest by ``paths`` (DOMAIN/CLASS/FILE: what follows the domain decides) where the file
has them, else by order. Nothing is guessed: a wrong row count, an unknown path or a NaN is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from pipeline.array_files import is_domain, read_array
from pipeline.errors import InputError, listed

Rows = npt.NDArray[np.floating]


def row_order(
    file: Path, paths: Sequence[str], wanted: Sequence[str], domain: str
) -> npt.NDArray[np.intp]:
    """Return for each manifest path in ``wanted`` its row in the file; every one must be there, once."""
    place: dict[tuple[str, ...], int] = {}
    for row, path in enumerate(paths):
        parts = PurePosixPath(path).parts
        if not is_domain(parts[0], domain):
            continue
        key = parts[1:]
        if key in place:
            raise InputError(
                f"{file}: two rows for {domain}/{'/'.join(key)} (rows {place[key]} and {row})"
            )
        place[key] = row
    depths = sorted({len(key) for key in place})
    keys = [_matching(PurePosixPath(path).parts, depths, place) for path in wanted]
    unknown = [path for path, key in zip(wanted, keys, strict=True) if key not in place]
    if unknown:
        raise InputError(
            f"{file}: no row for {len(unknown)} of the {len(wanted)} images of {domain}: {listed(unknown, most=3)}"
        )
    extra = sorted(set(place) - set(keys))
    if extra:
        names = [f"{domain}/{'/'.join(key)}" for key in extra]
        raise InputError(
            f"{file}: {len(extra)} paths unknown to the manifest: {listed(names, most=3)}"
        )
    return np.array([place[key] for key in keys], dtype=np.intp)


def _matching(
    parts: tuple[str, ...], depths: Sequence[int], place: Mapping[tuple[str, ...], int]
) -> tuple[str, ...]:
    """Return the CLASS/…/FILE of a manifest path that the file knows: what precedes it differs between machines."""
    for depth in depths:
        if parts[-depth:] in place:
            return parts[-depth:]
    return parts


def import_rows(
    file: Path, name: str | None, order: npt.NDArray[np.intp], *, file_rows: int, dtype: str
) -> Rows:
    """Return the embeddings (n, d) of one view in manifest order, checked and as ``dtype``.

    ``order`` (n,) gives the row of the file for each row of the manifest; ``file_rows`` is how many the file must have.
    """
    array = read_array(file, name)
    label = f"{file}: array {name!r}" if name else str(file)
    if array.dtype.kind != "f":
        raise InputError(f"{label} holds {array.dtype}, not floating-point numbers")
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{label} has shape {array.shape}; one row of numbers per image is wanted")
    if len(array) != file_rows:
        raise InputError(f"{label} has {len(array)} rows where {file_rows} are wanted")
    values = array[order]
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise InputError(
            f"{label}: row {int(order[bad.argmax()])} is not finite (NaN or infinity); {int(bad.sum())} such rows"
        )
    with np.errstate(
        over="ignore"
    ):  # an overflow to infinity is refused by the store, which knows the remedy
        return values.astype(dtype)
