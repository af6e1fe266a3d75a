"""What open_clip knows of a model before any weights: its architecture, its tags, how it wants its images."""

import json
from pathlib import Path
from typing import Any

from pipeline.encoders.origin import CLIP_CONFIG, fetch_from_hub
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.errors import ModelError, did_you_mean

HUB_PREFIX = "hf-hub:"


def import_open_clip() -> Any:
    """Import open_clip where torchvision's compiled operators may not load."""
    ensure_torchvision_ops()
    import open_clip  # after the operators are declared

    return open_clip


def read_configs(name: str, origin: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (model config, preprocessing config): the file beside the weights, the hub's, or open_clip's own."""
    if (origin / CLIP_CONFIG).is_file():
        return _read_config(origin / CLIP_CONFIG)
    if name.startswith(HUB_PREFIX):
        repo = name.removeprefix(HUB_PREFIX)
        return _read_config(fetch_from_hub(repo, [CLIP_CONFIG], repr(name), origin))
    open_clip = import_open_clip()
    builtin = open_clip.get_model_config(name) if ":" not in name else None
    if builtin is None:
        hint = did_you_mean(name, open_clip.list_models())
        raise ModelError(f"open_clip has no model {name!r}, and {origin} holds no {CLIP_CONFIG}{hint}")
    return builtin, {}


def _read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: the model config is not valid JSON ({error})") from error
    model_config = content.get("model_cfg", content) if isinstance(content, dict) else {}
    kinds = {"embed_dim": int, "vision_cfg": dict, "text_cfg": dict}
    for key, kind in kinds.items():
        if not isinstance(model_config, dict) or not isinstance(model_config.get(key), kind):
            raise ModelError(
                f"{path}: the model config must be a JSON object with a number embed_dim and the objects "
                f"vision_cfg and text_cfg; {key} is missing or something else"
            )
    preprocess_config = content.get("preprocess_cfg") or {} if model_config is not content else {}
    return dict(model_config), dict(preprocess_config)


def tag_config_of(name: str, pretrained: str) -> dict[str, Any]:
    """Return open_clip's record of a tag (repository, normalisation, activation); {} without a tag."""
    if not pretrained:
        return {}
    known = import_open_clip().pretrained
    found = dict(known.get_pretrained_cfg(name, pretrained))
    if not found:
        tags = known.list_pretrained_tags_by_model(name)
        raise ModelError(
            f"open_clip model {name!r} has no pretrained tag {pretrained!r}{did_you_mean(pretrained, tags)}"
        )
    return found
