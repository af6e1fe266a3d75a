"""Any timm model as an `ImageEncoder`: pooled features before the classifier."""

from __future__ import annotations

import inspect
import re
import sys
from typing import TYPE_CHECKING, Any

import torch

from pipeline.encoders import hub
from pipeline.encoders.checkpoints import (
    FILTER_ERRORS,
    load_state_dict,
    load_strictly,
    misfit,
)
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.origin import find_checkpoint
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.errors import ModelError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HUB_FILES = ("model.safetensors", "pytorch_model.bin")
# Arguments of timm's factory that this module sets itself, or that change what the model returns.
RESERVED = frozenset(
    {
        "num_classes",
        "pretrained",
        "pretrained_cfg",
        "pretrained_cfg_overlay",
        "checkpoint_path",
        "cache_dir",
        "features_only",
        "in_chans",
        "scriptable",
        "exportable",
    }
)
RESIZE_MODES = {"center": "shortest", "squash": "squash", "border": "longest"}


def build(
    name: str,
    *,
    origin: Path | None = None,
    pretrained: str | bool | None = None,
    kwargs: Mapping[str, Any] | None = None,
    preprocessing_override: Mapping[str, Any] | None = None,
    device: torch.device | None = None,
    precision: str = "float32",
) -> ImageEncoder:
    """Build timm's model ``name`` (``architecture`` or ``architecture.tag``) with its weights.

    ``origin``: a checkpoint file, or a folder that holds one; a folder without one, or None, means
    timm's weights from the hub. ``pretrained``: the hub tag where the name has none (True and None:
    timm's default tag); False: never the hub. ``kwargs`` go to the model's constructor. There are
    no random weights.
    """
    arguments = dict(kwargs or {})
    _check_arguments(name, arguments)
    architecture, tag = _parse(name, pretrained)
    full_name = f"{architecture}.{tag}" if tag else architecture
    checkpoint = None if origin is None else find_checkpoint(origin)
    if checkpoint is None:
        if pretrained is False:
            where = "give a checkpoint as origin" if origin is None else f"put one in {origin}"
            raise ModelError(f"timm model {name!r} has no weights: {where}, or allow pretrained")
        checkpoint, tag = _download(full_name, origin)
    model = _create(full_name, arguments, num_classes=0)
    _load(model, load_state_dict(checkpoint), full_name, arguments, checkpoint)
    preprocessing = _preprocessing(model, arguments).override(preprocessing_override or {})
    description = {
        "library": "timm",
        "name": architecture,
        "pretrained": tag or None,
        "kwargs": arguments,
    }
    return ImageEncoder(
        model,
        model,
        preprocessing=preprocessing,
        description=description,
        device=device or torch.device("cpu"),
        precision=precision,
    )


def _timm() -> Any:
    ensure_torchvision_ops()
    import timm  # after the operators are declared
    import timm.data

    return timm


def _check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    for argument, value in arguments.items():
        if argument in RESERVED and (argument, value) != ("in_chans", 3):
            raise ModelError(
                f"timm model {name!r}: argument {argument!r} is not for kwargs; "
                "the pipeline sets it"
            )


def _parse(name: str, pretrained: str | bool | None) -> tuple[str, str]:
    """Split ``architecture.tag``; check both against timm's lists, offline."""
    timm = _timm()
    architecture, _, tag = name.partition(".")
    if isinstance(pretrained, str):
        if tag and tag != pretrained:
            raise ModelError(
                f"timm model {name!r}: its tag and pretrained={pretrained!r} disagree; "
                "keep one of them"
            )
        tag = pretrained
    if not timm.is_model(architecture):
        raise ModelError(
            f"timm has no model {architecture!r}{did_you_mean(architecture, timm.list_models())}"
        )
    tags = [
        full.partition(".")[2] for full in timm.list_models(f"{architecture}.*", pretrained=True)
    ]
    if tag and tag not in tags:
        raise ModelError(
            f"timm model {architecture!r} has no pretrained tag {tag!r}{did_you_mean(tag, tags)}"
        )
    return architecture, tag


def _create(full_name: str, arguments: Mapping[str, Any], *, num_classes: int) -> Any:
    timm = _timm()
    try:
        return timm.create_model(full_name, pretrained=False, num_classes=num_classes, **arguments)
    except TypeError as error:
        unknown = re.search(
            r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error)
        )
        if unknown is None:
            raise _rejected(full_name, arguments, error) from error
        module = sys.modules[timm.models.model_entrypoint(full_name.partition(".")[0]).__module__]
        known = inspect.signature(getattr(module, unknown[1], object)).parameters
        message = f"timm model {full_name!r}: no constructor argument {unknown[2]!r}"
        raise ModelError(message + did_you_mean(unknown[2], known)) from error
    except (
        ValueError,
        AssertionError,
        RuntimeError,
        LookupError,
        AttributeError,
        ArithmeticError,
    ) as error:
        raise _rejected(full_name, arguments, error) from error


def _rejected(full_name: str, arguments: Mapping[str, Any], error: Exception) -> ModelError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return ModelError(f"timm model {full_name!r} cannot be built with {dict(arguments)} ({reason})")


def _download(full_name: str, origin: Path | None) -> tuple[Path, str]:
    """Return the checkpoint from the hub and the tag it belongs to."""
    what = f"timm model {full_name!r}"
    config = _timm().get_pretrained_cfg(full_name)
    if config is not None and config.hf_hub_id:
        names = [config.hf_hub_filename] if config.hf_hub_filename else HUB_FILES
        return hub.fetch(config.hf_hub_id, names, what=what, destination=origin), config.tag or ""
    if config is not None and config.url:  # 19 old models are on web servers only
        url = config.url
        raise hub.unavailable(what, "not on the hub", url, url.rpartition("/")[2], origin)
    raise ModelError(
        f"{what}: timm publishes no weights for it; give your own checkpoint as origin"
    )


def _load(
    model: Any,
    state: dict[str, torch.Tensor],
    full_name: str,
    arguments: Mapping[str, Any],
    checkpoint: Path,
) -> None:
    """Load ``state`` strictly, but for the classifier that ``num_classes=0`` takes away.

    timm's own filter for the architecture runs first: it renames keys of original checkpoints and
    resamples position embeddings and patch kernels to the model's size.
    """
    what = f"timm model {full_name!r}"
    try:
        state = _filtered(model, state, full_name)
    except FILTER_ERRORS as error:
        raise misfit(checkpoint, what, " ".join(str(error).split())[:300]) from error
    own = set(model.state_dict())
    classifiers = model.pretrained_cfg.get("classifier") or ()
    names = [classifiers] if isinstance(classifiers, str) else classifiers
    head = {f"{name}.{part}" for name in names for part in ("weight", "bias")} - own
    if not (own | head).issuperset(
        state
    ):  # some heads have more layers: compare with a whole model
        head = set(_create(full_name, arguments, num_classes=2).state_dict()) - own
    state = {key: tensor for key, tensor in state.items() if key not in head}
    load_strictly(model, state, what, checkpoint)


def _filtered(
    model: Any, state: dict[str, torch.Tensor], full_name: str
) -> dict[str, torch.Tensor]:
    entrypoint = _timm().models.model_entrypoint(full_name.partition(".")[0])
    rename = getattr(sys.modules[entrypoint.__module__], "checkpoint_filter_fn", None)
    return dict(rename(state, model)) if rename else state


def _preprocessing(model: Any, arguments: Mapping[str, Any]) -> Preprocessing:
    """Return timm's evaluation transform for the model, at the size it was built for."""
    config = _timm().data.resolve_model_data_config(model)
    size = arguments.get("img_size") or config["input_size"][-2:]
    height, width = (size, size) if isinstance(size, int) else size
    mode = RESIZE_MODES[config["crop_mode"]]
    # timm forgets the interpolation where it scales the short side for a crop that is not square.
    oblong = mode == "shortest" and height != width
    return Preprocessing(
        height=height,
        width=width,
        crop_pct=config["crop_pct"],
        resize_mode=mode,
        interpolation="bilinear" if oblong else config["interpolation"],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        fill_color=tuple(round(255 * level) for level in config["mean"])
        if mode == "longest"
        else (0, 0, 0),
    )
