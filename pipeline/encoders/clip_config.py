"""What open_clip knows of a model before any weights: its architecture, its tags, how it wants its images."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pipeline.encoders import hub
from pipeline.encoders.origin import CLIP_CONFIG
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.errors import ModelError, did_you_mean, listed

if TYPE_CHECKING:
    from pathlib import Path

HUB_PREFIX = "hf-hub:"
CONFIG_KEYS = ("embed_dim", "vision_cfg", "text_cfg")


def import_open_clip() -> Any:
    """Import open_clip where torchvision's compiled operators may not load."""
    ensure_torchvision_ops()
    import open_clip  # after the operators are declared

    return open_clip


def read_configs(
    name: str, config: Path | None, origin: Path | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (model config, preprocessing config); open_clip's registry stays as it is."""
    beside_weights = None if origin is None else origin / CLIP_CONFIG
    if config is None and beside_weights is not None and beside_weights.is_file():
        config = beside_weights
    if config is None and name.startswith(HUB_PREFIX):
        config = hub.fetch(
            name.removeprefix(HUB_PREFIX), [CLIP_CONFIG], what=repr(name), destination=origin
        )
    if config is not None:
        return _read_config(config)
    open_clip = import_open_clip()
    builtin = open_clip.get_model_config(name) if ":" not in name else None
    if builtin is None:
        hint = did_you_mean(name, open_clip.list_models())
        raise ModelError(
            f"open_clip has no model {name!r}, and no model config (JSON) is given{hint}"
        )
    return builtin, {}


def _read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: the model config cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ModelError(f"{path}: the model config is not valid JSON ({error})") from error
    model_config = content.get("model_cfg", content) if isinstance(content, dict) else None
    if not isinstance(model_config, dict):
        raise ModelError(
            f"{path}: the model config must be a JSON object with {listed(CONFIG_KEYS)}"
        )
    missing = [key for key in CONFIG_KEYS if key not in model_config]
    if missing:
        raise ModelError(f"{path}: the model config lacks {listed(missing)}")
    for key in CONFIG_KEYS[1:]:
        if not isinstance(model_config[key], dict):
            raise ModelError(f"{path}: {key} must be a JSON object")
    preprocess_config = content.get("preprocess_cfg") or {} if model_config is not content else {}
    return dict(model_config), dict(preprocess_config)


def tag_config_of(name: str, pretrained: str | None, *, required: bool) -> dict[str, Any]:
    """Return open_clip's record of a tag (repository, normalisation, activation), or {}."""
    pretrained_module = import_open_clip().pretrained
    tags = pretrained_module.list_pretrained_tags_by_model(name)
    if pretrained is None:
        if required:
            raise ModelError(
                f"open_clip model {name!r} has no weights: give a checkpoint as origin, "
                f"or a tag as pretrained ({listed(tags) or 'open_clip has none for it'})"
            )
        return {}
    found = dict(pretrained_module.get_pretrained_cfg(name, pretrained))
    if not found:
        raise ModelError(
            f"open_clip model {name!r} has no pretrained tag {pretrained!r}"
            f"{did_you_mean(pretrained, tags)}"
        )
    return found
