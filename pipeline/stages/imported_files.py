"""Which file of an imported model holds what: one file for everything, or a folder with one per domain."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import InputError
from pipeline.params import Model

TEXTS = "text.npz"  # in a folder: the text embeddings


def embeddings_file(spec: Model, domain: str) -> Path:
    """Return the .npy or .npz with the embeddings of ``domain``: the origin, or DOMAIN.npz or .npy in it."""
    origin = Path(spec.origin)
    if not origin.is_dir():
        return origin
    for suffix in (".npz", ".npy"):
        if (origin / f"{domain}{suffix}").is_file():
            return origin / f"{domain}{suffix}"
    raise InputError(f"{origin}: holds neither {domain}.npz nor {domain}.npy")


def texts_file(spec: Model) -> Path:
    """Return the .npz with the text embeddings."""
    origin = Path(spec.origin)
    return origin / TEXTS if origin.is_dir() else origin
