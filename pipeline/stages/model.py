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
from pipeline.params import Model, load_params
from pipeline.stages import places
from pipeline.write_aside import write_aside


def identity(spec: Model) -> dict[str, Any]:
    """Return what tells one set of weights from another."""
    facts: dict[str, Any] = {"library": spec.library, "name": spec.name}
    checkpoint = find_checkpoint(Path(spec.origin))
    if checkpoint is None:
        return {**facts, "hub": True}
    with checkpoint.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    facts |= {"file": checkpoint.name, "bytes": checkpoint.stat().st_size, "sha256": digest}
    config = Path(spec.origin) / CLIP_CONFIG
    if config.is_file():
        facts["config_sha256"] = hashlib.sha256(config.read_bytes()).hexdigest()
    return facts


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.model", description=__doc__)
    parser.add_argument("model")
    args = parser.parse_args(argv)
    facts = identity(load_params().models[args.model])
    with write_aside(places.model_identity(args.model)) as aside:
        aside.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(f"model {args.model}: {facts.get('file', 'weights come from the hub')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
