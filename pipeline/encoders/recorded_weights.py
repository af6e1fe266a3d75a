"""Identify a model's weights and check that they match the cached features."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.dvc_lock import read_stage
from pipeline.encoders.origin import CLIP_CONFIG, find_checkpoint
from pipeline.errors import ModelError

NEW_WEIGHTS = "REFEREE_NEW_WEIGHTS"  # set to extract features again with other weights


def identify_weights(origin: Path, library: str) -> dict[str, Any]:
    """Return facts that identify a model's weights or imported files: names, sizes and digests."""
    if library == "imported" and origin.is_dir():  # arrays and stores of another project
        files = sorted(file for file in origin.rglob("*") if file.is_file())
        return {"files": {file.relative_to(origin).as_posix(): _sha256(file) for file in files}}
    checkpoint = find_checkpoint(origin)
    if origin.is_dir():
        require_same_in_clones(origin)
    if checkpoint is None:
        return {"hub": True}
    facts = {"file": checkpoint.name, "bytes": checkpoint.stat().st_size, "sha256": _sha256(checkpoint)}
    if (origin / CLIP_CONFIG).is_file():
        facts["config_sha256"] = _sha256(origin / CLIP_CONFIG)
    return facts


def require_weights_of_features(name: str, origin: str, facts: dict[str, Any]) -> None:
    """Raise ModelError if the weights changed while suite.yaml still names the same model at the same path."""
    recorded = recorded_facts(name, origin)
    if recorded is None or recorded == facts:
        return
    if any(recorded.get(key) != facts[key] for key in ("library", "name")):
        return  # suite.yaml names another model
    raise ModelError(
        f"{origin}: {_described(facts)}, but the features that dvc.lock names were made with {_described(recorded)}; "
        f"restore them, remove {origin} to continue without weights (dvc repro --allow-missing), or extract all "
        f"features again with the new weights: {NEW_WEIGHTS}=1 dvc repro"
    )


def recorded_facts(name: str, origin: str) -> dict[str, Any] | None:
    """Return the facts that dvc.lock records of a model at ``origin``, or None if it records none."""
    if origin not in (dependency["path"] for dependency in read_stage(f"model@{name}").get("deps", ())):
        return None
    import dvc.api  # takes a second; needed only if the model is recorded
    from dvc.exceptions import DvcException

    try:
        facts: dict[str, Any] = json.loads(dvc.api.read(str(paths.model_identity(name))))
    except (DvcException, OSError) as error:
        raise ModelError(
            f"{paths.model_identity(name)}: dvc.lock names it, but neither cache nor remote has it ({error}), so the "
            f"weights of the features are unknown; run dvc pull, or extract again: {NEW_WEIGHTS}=1 dvc repro"
        ) from None
    return facts


def _described(facts: dict[str, Any]) -> str:
    if facts.get("hub"):
        return "the hub's weights (the folder holds none)"
    config = f" and {CLIP_CONFIG} {facts['config_sha256'][:12]}" if "config_sha256" in facts else ""
    return f"{facts['file']} with sha256 {facts['sha256'][:12]}{config}"


def require_same_in_clones(folder: Path) -> None:
    """Raise ModelError if git tracks only some files of a folder, which DVC sees as changed weights in a clone."""
    command = ("git", "ls-files", "--others", "--cached", "-t", "--", str(folder))
    listing = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    states = {line[:1] for line in listing.stdout.splitlines()}
    if {"H", "?"} <= states:  # H: tracked, ?: untracked
        raise ModelError(
            f"{folder}: git tracks some of its files and not others, so a clone has the folder without the weights; "
            "let origin name the checkpoint file itself, or remove the other files from git"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
