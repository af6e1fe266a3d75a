"""Build any open_clip model as an `ImageEncoder` that also embeds texts."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from pipeline.encoders.backbone import Backbone
from pipeline.encoders.checkpoints import FILTER_ERRORS, load_state_dict, load_strictly, misfit
from pipeline.encoders.device import choose_device
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.origin import CLIP_CONFIG, fetch_from_hub, find_checkpoint
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.errors import ModelError, did_you_mean, listed, one_line

TEXTS_PER_BATCH = 16
HUB_PREFIX = "hf-hub:"
HUB_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
# Settings stored as tensors, which only OpenAI's original checkpoints have.
OPENAI_MARKS = frozenset({"input_resolution", "context_length", "vocab_size"})


class ClipEncoder(ImageEncoder):
    """Both towers of an open_clip ``module``; ``text_config`` is the ``text_cfg`` of its model config.

    ``logit_scale`` is the factor on cosines: the exponential of the model's parameter.
    """

    def __init__(self, module: Any, *, text_config: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(module, module.encode_image, **settings)
        self._encode_text: Callable[[torch.Tensor], torch.Tensor] = module.encode_text
        self._text_config = dict(text_config)
        self.logit_scale = float(module.logit_scale.exp())

    @cached_property
    def tokenizer(self) -> Any:
        """open_clip's tokenizer for the model, built on first use because images do not need it."""
        return _tokenizer(str(self.description["name"]), self._text_config)

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return embeddings (n, d) of L2 norm 1; passes of constant size make a row independent of its neighbours."""
        padding = [""] * (-len(texts) % TEXTS_PER_BATCH)
        tokens = self.tokenizer([*texts, *padding]).to(self.device)
        parts = [
            self.run(self._encode_text, tokens[start : start + TEXTS_PER_BATCH])
            for start in range(0, len(tokens), TEXTS_PER_BATCH)
        ]
        return torch.nn.functional.normalize(torch.cat(parts)[: len(texts)], dim=-1)


def build(backbone: Backbone, device: str) -> ClipEncoder:
    """Build an open_clip model with its weights on a device; see `device.choose_device`.

    The name is one of open_clip's, ``hf-hub:owner/repository``, or any if the origin holds an open_clip_config.json.
    The tag also applies to a local checkpoint: it determines the normalisation and the activation, which weights alone
    do not show. ``quick_gelu: auto`` uses the first of these that applies: open_clip's record of the tag, the model
    config (all of open_clip's ``-quickgelu`` names), the settings among the weights of OpenAI's original files, and
    "openai" in the name of the checkpoint file or its folder.
    """
    chosen, name, origin = choose_device(device), backbone.name, Path(backbone.origin)
    name = name if name.startswith(HUB_PREFIX) else name.replace("/", "-")
    model_config, preprocess_config = read_configs(name, origin)
    tag_config = _tag_config(name, backbone.pretrained)
    checkpoint = find_checkpoint(origin) or _download(name, origin, backbone.pretrained, tag_config)
    state = load_state_dict(checkpoint)
    from_openai = OPENAI_MARKS.issubset(state) or "openai" in f"{checkpoint.parent.name}/{checkpoint.name}".lower()
    recorded = tag_config.get("quick_gelu", False) if tag_config else model_config.get("quick_gelu", from_openai)
    model_config["quick_gelu"] = bool(recorded if backbone.quick_gelu == "auto" else backbone.quick_gelu)
    model = _create(name, model_config)
    _load_weights(model, state, name, checkpoint)
    preprocessing = _preprocessing(model, {**preprocess_config, **tag_config})
    return ClipEncoder(
        model,
        text_config=model_config["text_cfg"],
        preprocessing=preprocessing.override(backbone.preprocessing),
        description={
            "library": "open_clip",
            "name": name,
            "pretrained": backbone.pretrained or None,
            "config": model_config,
        },
        device=chosen,
        precision=backbone.precision,
    )


def _open_clip() -> Any:
    """Import open_clip even if torchvision's compiled operators do not load."""
    ensure_torchvision_ops()
    import open_clip  # after the operators are declared

    return open_clip


def read_configs(name: str, origin: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (model config, preprocessing config) from the file beside the weights, the hub, or open_clip."""
    if (origin / CLIP_CONFIG).is_file():
        return _read_config(origin / CLIP_CONFIG)
    if name.startswith(HUB_PREFIX):
        repo = name.removeprefix(HUB_PREFIX)
        return _read_config(fetch_from_hub(repo, [CLIP_CONFIG], repr(name), origin))
    open_clip = _open_clip()
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
    types = {"embed_dim": int, "vision_cfg": dict, "text_cfg": dict}
    for key, type_ in types.items():
        if not isinstance(model_config, dict) or not isinstance(model_config.get(key), type_):
            raise ModelError(
                f"{path}: the model config must be a JSON object with a number embed_dim and the objects "
                f"vision_cfg and text_cfg; {key} is missing or of another type"
            )
    preprocess_config = content.get("preprocess_cfg") or {} if model_config is not content else {}
    return dict(model_config), dict(preprocess_config)


def _tag_config(name: str, pretrained: str) -> dict[str, Any]:
    """Return open_clip's record of a tag (repository, normalisation, activation), or {} without a tag."""
    if not pretrained:
        return {}
    registry = _open_clip().pretrained
    record = dict(registry.get_pretrained_cfg(name, pretrained))
    if not record:
        tags = registry.list_pretrained_tags_by_model(name)
        raise ModelError(
            f"open_clip model {name!r} has no pretrained tag {pretrained!r}{did_you_mean(pretrained, tags)}"
        )
    return record


def _download(name: str, origin: Path, tag: str, tag_config: Mapping[str, Any]) -> Path:
    """Return the path of the hub's checkpoint for the tag."""
    if name.startswith(HUB_PREFIX):
        return fetch_from_hub(name.removeprefix(HUB_PREFIX), HUB_FILES, repr(name), origin)
    if not tag_config:
        tags = listed(_open_clip().pretrained.list_pretrained_tags_by_model(name)) or "open_clip has none for it"
        raise ModelError(
            f"{origin}: holds no checkpoint of open_clip model {name!r}; "
            f"put one into it, or give a tag as pretrained ({tags})"
        )
    repository, _, file_name = str(tag_config["hf_hub"]).rpartition("/")
    names = (file_name,) if file_name else HUB_FILES
    return fetch_from_hub(repository, names, f"open_clip model {name!r} with tag {tag!r}", origin)


def _load_weights(model: Any, state: dict[str, torch.Tensor], name: str, checkpoint: Path) -> None:
    """Load ``state`` strictly after open_clip's own conversions of older and foreign layouts."""
    from open_clip import convert
    from open_clip import model as layout

    model_label = f"open_clip model {name!r}"
    # Non-persistent buffers such as masks, which the state dict of a TorchScript archive contains.
    transient = {key for key, _ in model.named_buffers()} - set(model.state_dict())
    state = {key: t for key, t in state.items() if key not in transient | OPENAI_MARKS}
    try:
        state = convert.convert_state_dict(model, state)
        if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
            state = layout.convert_to_custom_text_state_dict(state)
        for key in ("logit_scale", "logit_bias"):  # scalar in some files, of shape (1,) in others
            parameter = getattr(model, key, None)
            if key in state and parameter is not None:
                state[key] = state[key].reshape(parameter.shape)
        state.pop("text.transformer.embeddings.position_ids", None)  # buffer of old transformers versions
        layout.resize_pos_embed(state, model)
        layout.resize_text_pos_embed(state, model)
    except FILTER_ERRORS as error:
        raise misfit(checkpoint, model_label, error) from error
    load_strictly(model, state, model_label, checkpoint)


def _create(name: str, model_config: Mapping[str, Any]) -> Any:
    """Build the module that open_clip's factory would build for this config, without weights."""
    open_clip = _open_clip()
    settings = copy.deepcopy(dict(model_config))
    # The checkpoint has the weights of both towers, so nothing else need be downloaded.
    if "timm_model_name" in settings["vision_cfg"]:
        settings["vision_cfg"]["timm_model_pretrained"] = False
    if "hf_model_name" in settings["text_cfg"]:
        settings["text_cfg"]["hf_model_pretrained"] = False
    own_text_tower = settings.pop("custom_text", False) or "hf_model_name" in settings["text_cfg"]
    with_text_tower = open_clip.CoCa if "multimodal_cfg" in settings else open_clip.CustomTextCLIP
    try:
        return (with_text_tower if own_text_tower else open_clip.CLIP)(**settings)
    except (*FILTER_ERRORS, ArithmeticError) as error:
        reason = one_line(error)[:200]
        raise ModelError(f"open_clip model {name!r} cannot be built from its config ({reason})") from error
    except OSError as error:  # raised by transformers if the hub does not answer
        raise ModelError(
            f"open_clip model {name!r} needs files of its text tower from the hub ({str(error).splitlines()[0]})"
        ) from error


def _preprocessing(model: Any, settings: Mapping[str, Any]) -> Preprocessing:
    """Return open_clip's evaluation transform with ``settings`` over its defaults, at the tower's image size."""
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    merged = merge_preprocess_dict(PreprocessCfg(), dict(settings))
    size = model.visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    # open_clip ignores the interpolation if it scales the short side for a crop that is not square.
    oblong = merged["resize_mode"] == "shortest" and height != width
    return Preprocessing(
        height=height,
        width=width,
        crop_pct=1.0,
        resize_mode=merged["resize_mode"],
        interpolation="bicubic" if oblong else merged["interpolation"],
        mean=tuple(merged["mean"]),
        std=tuple(merged["std"]),
        fill_color=(merged["fill_color"],) * 3,
    )


def _tokenizer(name: str, text_config: Mapping[str, Any]) -> Any:
    """Return the tokenizer of ``open_clip.get_tokenizer`` for a config that need not be registered."""
    tokenizers = _open_clip().tokenizer
    length = text_config.get("context_length", tokenizers.DEFAULT_CONTEXT_LENGTH)
    options = dict(text_config.get("tokenizer_kwargs") or {})
    hub_name = text_config.get("hf_tokenizer_name")
    if not hub_name:
        return tokenizers.SimpleTokenizer(context_length=length, **options)
    try:
        mode = text_config.get("tokenizer_mode")
        return tokenizers.HFTokenizer(hub_name, context_length=length, tokenizer_mode=mode, **options)
    except ImportError as error:
        raise ModelError(f"texts of open_clip model {name!r} need a package: pip install transformers") from error
    except (OSError, ValueError) as error:
        reason = f"is neither cached nor downloadable ({one_line(error)[:120]})"
        raise ModelError(f"tokenizer {hub_name!r} of open_clip model {name!r} {reason}") from error
