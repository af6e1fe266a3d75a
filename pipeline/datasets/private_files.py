"""Files of a manifest that stay with their owner: DVC gets a pointer, which says that there is one and which.

For a domain of `data.private`, images.csv (whose paths contain class names), labels.csv and report.json are written to
private/DOMAIN, outside every stage's outputs. In their place under cache/manifests/DOMAIN stands a pointer with the
file's sha256, so that DVC sees every change; but as DVC never has the file, no `dvc push` of any kind can send it.
Readers follow the pointer where the file is, that is on its owner's machine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pipeline.errors import StoreError

FOLDER = "private"  # beside cache/
HEADER = ("kept_private", "sha256")


def kept_at(path: Path) -> Path:
    """Return where the file is kept that belongs to cache/manifests/DOMAIN/NAME."""
    return path.parents[3] / FOLDER / path.parent.name / path.name


def pointer(name: str, content: bytes) -> str:
    """Return what stands in the place of a file of that content, in the same format."""
    digest = hashlib.sha256(content).hexdigest()
    if name.endswith(".json"):
        return json.dumps(dict(zip(HEADER, (name, digest), strict=True)), indent=2) + "\n"
    return f"{','.join(HEADER)}\n{name},{digest}\n"


def is_pointer_header(header: list[str]) -> bool:
    """Say whether a CSV file that begins so is a pointer."""
    return tuple(header) == HEADER


def followed(path: Path, row: list[str]) -> Path:
    """Return the file that the pointer ``path`` with that row stands for; it must be here and the very one."""
    place = kept_at(path)
    domain = path.parent.name
    try:
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise StoreError(
            f"{path}: kept private (data.private): its owner has it, and what reads it runs there; "
            f"if you are the owner: dvc repro --force manifest@{domain}"
        ) from None
    if row != [path.name, digest]:
        raise StoreError(
            f"{place}: not the file that {path} stands for; dvc repro --force manifest@{domain}"
        )
    return place
