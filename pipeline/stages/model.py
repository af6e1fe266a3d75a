"""Stage `model@MODEL`: record which weights a model has.

Writes cache/models/MODEL.json: the checkpoint's name, size and sha256, or that it comes from the hub. `embed` depends
on this small file, so a teammate without the weights can use the cache. The stage fails if the weights differ from
those that made the cached features, because new weights extract everything again and that must be intended.
"""

import json
import os
from pathlib import Path
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.encoders.recorded_weights import NEW_WEIGHTS, identify_weights, require_weights_of_features
from pipeline.stage import Context, stage
from pipeline.write_aside import write_text


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the settings that decide which weights are read."""
    return params.models[name].model_dump(mode="json", include={"library", "name", "origin"})


@stage(per=("models",), reads=("models",), version=1, settings=settings)
def model(context: Context, name: str) -> str:
    """Write cache/models/MODEL.json."""
    spec = context.params.models[name]
    facts = {"library": spec.library, "name": spec.name, **identify_weights(Path(spec.origin), spec.library)}
    if spec.library != "imported" and not os.environ.get(NEW_WEIGHTS):
        require_weights_of_features(name, spec.origin, facts)
    write_text(paths.model_identity(name), json.dumps(facts, indent=2, sort_keys=True) + "\n")
    return facts.get("file") or ", ".join(facts.get("files", ())) or "weights come from the hub"
