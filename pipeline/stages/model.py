"""Stage `model@MODEL`: which weights, exactly.

Writes cache/models/MODEL.json: the checkpoint's name, size and sha256, or that it comes from the hub. `embed` depends
on this small file, so replacing a checkpoint re-extracts, and a teammate without the weights is served from the cache.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from pipeline.encoders.origin import CLIP_CONFIG, find_checkpoint
from pipeline.errors import exits_cleanly
from pipeline.params import Model, load_params, named
from pipeline.stages import places
from pipeline.write_aside import write_aside


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identity(spec: Model) -> dict[str, Any]:
    """Return what tells one set of weights from another."""
    facts: dict[str, Any] = {"library": spec.library, "name": spec.name}
    origin = Path(spec.origin)
    if spec.library == "imported" and origin.is_dir():
        files = sorted(file for file in origin.iterdir() if file.suffix in {".npy", ".npz"})
        return {**facts, "files": {file.name: sha256_of(file) for file in files}}
    checkpoint = find_checkpoint(origin)
    if checkpoint is None:
        return {**facts, "hub": True}
    facts |= {
        "file": checkpoint.name,
        "bytes": checkpoint.stat().st_size,
        "sha256": sha256_of(checkpoint),
    }
    if (origin / CLIP_CONFIG).is_file():
        facts["config_sha256"] = sha256_of(origin / CLIP_CONFIG)
    return facts


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.model", description=__doc__)
    parser.add_argument("model")
    args = parser.parse_args(argv)
    facts = identity(named("models", load_params().models, args.model))
    with write_aside(places.model_identity(args.model)) as aside:
        aside.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    origin = facts.get("file") or ", ".join(facts.get("files", ())) or "weights come from the hub"
    sys.stdout.write(f"model {args.model}: {origin}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
