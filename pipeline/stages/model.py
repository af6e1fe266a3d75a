"""Stage `model@MODEL`: record which weights a model has.

Writes cache/models/MODEL.json: the checkpoint's name, size and sha256, or that it comes from the hub. `embed` depends
on this small file, so replacing a checkpoint extracts again, and a teammate without the weights uses the cache.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.encoders.origin import CLIP_CONFIG, find_checkpoint
from pipeline.errors import ModelError
from pipeline.stage import Context, stage
from pipeline.write_aside import write_aside


@stage(per=("models",), reads=("models",), version=1)
def model(context: Context, name: str) -> str:
    """Write cache/models/MODEL.json."""
    spec = context.params.models[name]
    facts = {"library": spec.library, "name": spec.name, **weights(Path(spec.origin), spec.library)}
    with write_aside(paths.model_identity(name)) as aside:
        aside.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return facts.get("file") or ", ".join(facts.get("files", ())) or "weights come from the hub"


def weights(origin: Path, library: str) -> dict[str, Any]:
    """Return what tells one set of weights, or of imported files, from another."""
    if library == "imported" and origin.is_dir():
        files = sorted(file for file in origin.iterdir() if file.suffix in {".npy", ".npz"})
        return {"files": {file.name: _sha256(file) for file in files}}
    checkpoint = find_checkpoint(origin)
    if origin.is_dir():
        require_same_in_clones(origin)
    if checkpoint is None:
        return {"hub": True}
    facts = {
        "file": checkpoint.name,
        "bytes": checkpoint.stat().st_size,
        "sha256": _sha256(checkpoint),
    }
    if (origin / CLIP_CONFIG).is_file():
        facts["config_sha256"] = _sha256(origin / CLIP_CONFIG)
    return facts


def require_same_in_clones(folder: Path) -> None:
    """Refuse a folder of which git has a part: in a teammate's clone DVC would take it for changed weights."""
    command = ("git", "ls-files", "--others", "--cached", "-t", "--", str(folder))
    listed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    states = {line[:1] for line in listed.stdout.splitlines()}
    if {"H", "?"} <= states:  # tracked by git, and not
        raise ModelError(
            f"{folder}: git has some of its files and not others, so that a clone has a folder without the weights; "
            "let origin name the checkpoint file itself, or take the others out of git"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
