"""Build any timm model as an `ImageEncoder` of its pooled features, without the classifier."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pipeline.encoders.backbone import Backbone
from pipeline.encoders.checkpoints import FILTER_ERRORS, load_state_dict, load_strictly, misfit
from pipeline.encoders.device import choose_device
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.origin import fetch_from_hub, find_checkpoint, unavailable
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.errors import ModelError, did_you_mean, one_line

HUB_FILES = ("model.safetensors", "pytorch_model.bin")
# Arguments of timm's factory that this module sets itself or that change the model's output.
RESERVED = (
    *("num_classes", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path"),
    *("cache_dir", "features_only", "in_chans", "scriptable", "exportable"),
)
RESIZE_MODES: dict[str, Any] = {"center": "shortest", "squash": "squash", "border": "longest"}


def build(backbone: Backbone, device: str) -> ImageEncoder:
    """Build a timm model with its weights on a device; its name is ``architecture`` or ``architecture.tag``."""
    chosen, arguments, origin = choose_device(device), dict(backbone.kwargs), Path(backbone.origin)
    architecture, tag = parse_name(backbone.name, arguments)
    checkpoint = find_checkpoint(origin)
    if checkpoint is None:
        checkpoint, tag = _download(backbone.name, origin)
    model = _create(backbone.name, arguments, num_classes=0)
    _load(model, load_state_dict(checkpoint), backbone.name, arguments, checkpoint)
    return ImageEncoder(
        model,
        model,
        preprocessing=_preprocessing(model, arguments).override(backbone.preprocessing),
        description={"library": "timm", "name": architecture, "pretrained": tag or None, "kwargs": arguments},
        device=chosen,
        precision=backbone.precision,
    )


def _timm() -> Any:
    ensure_torchvision_ops()
    import timm  # after the operators are declared
    import timm.data

    return timm


def parse_name(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Split ``architecture.tag``; check both and the arguments, offline, against timm's lists."""
    timm = _timm()
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        raise ModelError(f"timm has no model {architecture!r}{did_you_mean(architecture, timm.list_models())}")
    tags = [full.partition(".")[2] for full in timm.list_models(f"{architecture}.*", pretrained=True)]
    if tag and tag not in tags:
        raise ModelError(f"timm model {architecture!r} has no pretrained tag {tag!r}{did_you_mean(tag, tags)}")
    for argument, value in arguments.items():
        if argument in RESERVED and (argument, value) != ("in_chans", 3):
            raise ModelError(f"timm model {name!r}: argument {argument!r} is not for kwargs; the pipeline sets it")
    return architecture, tag


def _create(full_name: str, arguments: Mapping[str, Any], *, num_classes: int) -> Any:
    try:
        return _timm().create_model(full_name, pretrained=False, num_classes=num_classes, **arguments)
    except (*FILTER_ERRORS, ArithmeticError) as error:
        reason = one_line(error)[:200] or type(error).__name__
        raise ModelError(f"timm model {full_name!r} cannot be built with {dict(arguments)} ({reason})") from error


def _download(full_name: str, origin: Path) -> tuple[Path, str]:
    """Return the path of the hub's checkpoint and its tag."""
    model_label = f"timm model {full_name!r}"
    config = _timm().get_pretrained_cfg(full_name)
    if config is not None and config.hf_hub_id:
        names = [config.hf_hub_filename] if config.hf_hub_filename else HUB_FILES
        return fetch_from_hub(config.hf_hub_id, names, model_label, origin), config.tag or ""
    if config is not None and config.url:  # 19 old models are only on web servers
        url = config.url
        raise unavailable(model_label, "not on the hub", url, url.rpartition("/")[2], origin)
    raise ModelError(f"{model_label}: timm publishes no weights for it; give your own checkpoint as origin")


def _load(
    model: Any, state: dict[str, torch.Tensor], full_name: str, arguments: Mapping[str, Any], checkpoint: Path
) -> None:
    """Load ``state`` strictly, except for the classifier, which ``num_classes=0`` removes from the model.

    timm's own filter for the architecture runs first: it renames keys of original checkpoints and resamples position
    embeddings and patch kernels to the model's size.
    """
    model_label = f"timm model {full_name!r}"
    entrypoint = _timm().models.model_entrypoint(full_name.partition(".")[0])
    convert = getattr(sys.modules[entrypoint.__module__], "checkpoint_filter_fn", None)
    try:
        state = dict(convert(state, model)) if convert else state
    except FILTER_ERRORS as error:
        raise misfit(checkpoint, model_label, error) from error
    keys = set(model.state_dict())
    classifiers = model.pretrained_cfg.get("classifier") or ()
    names = [classifiers] if isinstance(classifiers, str) else classifiers
    head = {f"{name}.{part}" for name in names for part in ("weight", "bias")} - keys
    if not (keys | head).issuperset(state):  # a head of more layers: compare with a model that has one
        head = set(_create(full_name, arguments, num_classes=2).state_dict()) - keys
    state = {key: tensor for key, tensor in state.items() if key not in head}
    load_strictly(model, state, model_label, checkpoint)


def _preprocessing(model: Any, arguments: Mapping[str, Any]) -> Preprocessing:
    """Return timm's evaluation transform for the model at its input size."""
    config = _timm().data.resolve_model_data_config(model)
    size = arguments.get("img_size") or config["input_size"][-2:]
    height, width = (size, size) if isinstance(size, int) else size
    mode = RESIZE_MODES[config["crop_mode"]]
    # timm ignores the interpolation if it scales the short side for a crop that is not square.
    oblong = mode == "shortest" and height != width
    return Preprocessing(
        height=height,
        width=width,
        crop_pct=config["crop_pct"],
        resize_mode=mode,
        interpolation="bilinear" if oblong else config["interpolation"],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        fill_color=tuple(round(255 * level) for level in config["mean"]) if mode == "longest" else (0, 0, 0),
    )
