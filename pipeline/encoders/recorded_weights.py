"""Which weights a model has, and whether they are those that its features were made with."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.dvc_lock import read_stage
from pipeline.encoders.origin import CLIP_CONFIG, find_checkpoint
from pipeline.errors import ModelError

NEW_WEIGHTS = "REFEREE_NEW_WEIGHTS"  # set to take other weights than those that the features were made with


def weights(origin: Path, library: str) -> dict[str, Any]:
    """Return what tells one set of weights, or of imported files, from another."""
    if library == "imported" and origin.is_dir():  # arrays, and stores of another project
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
    """Refuse weights that changed while suite.yaml still names the same model at the same path."""
    recorded = recorded_facts(name, origin)
    if recorded is None or recorded == facts:
        return
    if any(recorded.get(key) != facts[key] for key in ("library", "name")):
        return  # another model, which suite.yaml says
    raise ModelError(
        f"{origin}: {_described(facts)}, but the features that dvc.lock names were made with {_described(recorded)}; "
        f"put those back, remove {origin} to go on without weights (dvc repro --allow-missing), or extract everything "
        f"anew with these: {NEW_WEIGHTS}=1 dvc repro"
    )


def recorded_facts(name: str, origin: str) -> dict[str, Any] | None:
    """Return what dvc.lock records of a model at ``origin``; None where it records nothing."""
    if origin not in (dependency["path"] for dependency in read_stage(f"model@{name}").get("deps", ())):
        return None
    import dvc.api  # a second, where a model is recorded for another time only
    from dvc.exceptions import DvcException

    try:
        facts: dict[str, Any] = json.loads(dvc.api.read(str(paths.model_identity(name))))
    except (DvcException, OSError) as error:
        raise ModelError(
            f"{paths.model_identity(name)}: dvc.lock names it, and neither cache nor remote has it ({error}), so "
            f"the weights of the features are unknown; run dvc pull, or extract anew: {NEW_WEIGHTS}=1 dvc repro"
        ) from None
    return facts


def _described(facts: dict[str, Any]) -> str:
    if facts.get("hub"):
        return "the hub's weights (the folder holds none)"
    config = f" and {CLIP_CONFIG} {facts['config_sha256'][:12]}" if "config_sha256" in facts else ""
    return f"{facts['file']} with sha256 {facts['sha256'][:12]}{config}"


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
