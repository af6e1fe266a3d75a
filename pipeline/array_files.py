"""Read .npy and .npz files that others made: numbers and strings only, nothing is ever unpickled."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError, did_you_mean

PATHS = "paths"


def read_array(file: Path, name: str | None) -> npt.NDArray[np.generic]:
    """Return the array of a .npy, or the array ``name`` of an .npz."""
    found = _load(file, name)
    if found is None:
        raise InputError(
            f"{file}: has no array {name!r}{did_you_mean(name or '', _names(file))} "
            "(the model's arrays in params.yaml can name another)"
        )
    return found


def read_paths(file: Path, name: str = PATHS) -> list[str] | None:
    """Return the (n,) strings DOMAIN/CLASS/FILE of an .npz, or None where it has none."""
    paths = _load(file, name) if file.suffix == ".npz" else None
    if paths is None:
        return None
    if paths.ndim != 1 or paths.dtype.kind != "U":
        raise InputError(
            f"{file}: {name!r} must be a list of strings, not {paths.dtype} {paths.shape}"
        )
    texts = [str(path) for path in paths]
    for row, text in enumerate(texts):
        parts = PurePosixPath(text).parts
        # as_posix() differs where a path has //, ./ or a trailing slash: it would not be found again
        if (
            len(parts) < 3
            or ".." in parts
            or parts[0] == "/"
            or PurePosixPath(text).as_posix() != text
        ):
            raise InputError(f"{file}: {name}[{row}] = {text!r} is not DOMAIN/CLASS/FILE")
    return texts


def is_domain(part: str, key: str) -> bool:
    """Tell whether the DOMAIN of a path is the domain ``key``: keys have no spaces ("Real World" is real_world)."""
    return re.sub(r"\W", "_", part).lower() == key.lower()


def _names(file: Path) -> list[str]:
    with np.load(file, allow_pickle=False) as loaded:
        return list(loaded.files)


def _load(file: Path, name: str | None) -> npt.NDArray[np.generic] | None:
    """Return an array, None where an .npz has none of this ``name``."""
    try:
        with file.open("rb") as opened:
            if not opened.peek(6)[:6].startswith(
                (b"\x93NUMPY", b"PK")
            ):  # numpy would try to unpickle it
                raise InputError(f"{file}: not a .npy or .npz file")
            loaded = np.load(opened, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                return np.asarray(loaded[name]) if name in loaded.files else None
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(f"{file}: no such file; correct the path in params.yaml") from None
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{file}: {name or 'its array'} holds Python objects, which could run code when read; "
                "save it as an array of numbers or strings"
            ) from None
        raise InputError(f"{file}: not a readable .npy or .npz ({error})") from None
    except (OSError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError) as error:
        raise InputError(f"{file}: not a readable .npy or .npz ({error})") from None
