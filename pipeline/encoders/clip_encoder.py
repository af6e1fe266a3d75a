"""Any open_clip model: an `ImageEncoder` for its image tower, and its text tower beside it."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from pipeline.encoders.checkpoints import load_state_dict
from pipeline.encoders.clip_config import (
    HUB_PREFIX,
    import_open_clip,
    read_configs,
    tag_config_of,
)
from pipeline.encoders.clip_weights import find_weights, load_weights, uses_quick_gelu
from pipeline.encoders.image_encoder import ImageEncoder
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

TEXTS_PER_BATCH = 16


class ClipEncoder(ImageEncoder):
    """Image tower as an `ImageEncoder`, and the text tower.

    ``logit_scale``: the factor on cosines, exp of the model's parameter.
    """

    def __init__(
        self,
        module: Any,
        *,
        text_config: Mapping[str, Any],
        preprocessing: Preprocessing,
        description: Mapping[str, Any],
        device: torch.device,
        precision: str = "float32",
    ) -> None:
        """Freeze an open_clip ``module``; ``text_config`` is the text_cfg it was built from."""
        super().__init__(
            module,
            module.encode_image,
            preprocessing=preprocessing,
            description=description,
            device=device,
            precision=precision,
        )
        self._encode_text: Callable[[torch.Tensor], torch.Tensor] = module.encode_text
        self._text_config = dict(text_config)
        self.logit_scale = float(module.logit_scale.exp())

    @cached_property
    def tokenizer(self) -> Callable[[list[str]], torch.Tensor]:
        """open_clip's tokenizer for the model, made when first asked for: images need none."""
        return _tokenizer(str(self.description["name"]), self._text_config)

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Embed ``texts`` as float32 (n, d), each of L2 norm 1, on the encoder's device.

        Every pass has the same number of rows, so a text's bits do not depend on its neighbours.
        """
        if not texts:
            return torch.empty((0, self.width), device=self.device)
        padding = [""] * (-len(texts) % TEXTS_PER_BATCH)
        tokens = self.tokenizer([*texts, *padding]).to(self.device)
        parts = [
            self.run(self._encode_text, tokens[start : start + TEXTS_PER_BATCH])
            for start in range(0, len(tokens), TEXTS_PER_BATCH)
        ]
        return torch.nn.functional.normalize(torch.cat(parts)[: len(texts)], dim=-1)


def build(
    name: str,
    *,
    origin: Path | None = None,
    pretrained: str | None = None,
    config: Path | None = None,
    quick_gelu: str | bool = "auto",
    preprocessing_override: Mapping[str, Any] | None = None,
    device: torch.device | None = None,
    precision: str = "float32",
) -> ClipEncoder:
    """Build an open_clip model with its weights.

    ``name``: one of open_clip's, ``hf-hub:owner/repository``, or any name if ``config`` is a model
    config (JSON, open_clip's own or the hub's form; by default ``open_clip_config.json`` in
    ``origin``). ``origin``: a checkpoint file, or a folder that holds one; a folder without one, or
    None, means the weights of the tag ``pretrained`` from the hub. With both, the tag still says
    how the weights want their images normalised and which activation they were trained with.

    ``quick_gelu``: weights alone do not show the activation they were trained with. ``auto``
    follows, in this order: open_clip's record of the tag; the model config (all of open_clip's
    ``…-quickgelu`` names); OpenAI's original files, known by the settings in them; "openai" in the
    name of the checkpoint file or its folder.
    """
    name = name if name.startswith(HUB_PREFIX) else name.replace("/", "-")
    model_config, preprocess_config = read_configs(name, config, origin)
    tag_config = tag_config_of(
        name, pretrained, required=origin is None and not name.startswith(HUB_PREFIX)
    )
    checkpoint = find_weights(name, origin, pretrained, tag_config)
    state = load_state_dict(checkpoint)
    model_config["quick_gelu"] = uses_quick_gelu(
        quick_gelu, tag_config, model_config, state, checkpoint
    )
    model = _create(name, model_config)
    load_weights(model, state, name, checkpoint)
    preprocessing = _preprocessing(model, {**preprocess_config, **tag_config})
    description = {
        "library": "open_clip",
        "name": name,
        "pretrained": pretrained,
        "config": model_config,
    }
    return ClipEncoder(
        model,
        text_config=model_config["text_cfg"],
        preprocessing=preprocessing.override(preprocessing_override or {}),
        description=description,
        device=device or torch.device("cpu"),
        precision=precision,
    )


def _create(name: str, model_config: Mapping[str, Any]) -> Any:
    """Build the module that open_clip's factory would build for this config, weights apart."""
    open_clip = import_open_clip()
    settings = copy.deepcopy(dict(model_config))
    # The checkpoint brings the weights of both towers: nothing else is to be downloaded.
    if "timm_model_name" in settings["vision_cfg"]:
        settings["vision_cfg"]["timm_model_pretrained"] = False
    if "hf_model_name" in settings["text_cfg"]:
        settings["text_cfg"]["hf_model_pretrained"] = False
    own_text_tower = settings.pop("custom_text", False) or "hf_model_name" in settings["text_cfg"]
    kind = open_clip.CLIP
    if own_text_tower:
        kind = open_clip.CoCa if "multimodal_cfg" in settings else open_clip.CustomTextCLIP
    try:
        return kind(**settings)
    except (
        TypeError,
        ValueError,
        RuntimeError,
        AssertionError,
        AttributeError,
        LookupError,
        ArithmeticError,
    ) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"open_clip model {name!r} cannot be built from its config ({reason})"
        ) from error
    except OSError as error:  # transformers' way to say that the hub does not answer
        raise ModelError(
            f"open_clip model {name!r} needs files of its text tower from the hub "
            f"({str(error).splitlines()[0]})"
        ) from error


def _preprocessing(model: Any, settings: Mapping[str, Any]) -> Preprocessing:
    """Return open_clip's evaluation transform: its defaults, ``settings``, the tower's size."""
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    merged = merge_preprocess_dict(PreprocessCfg(), dict(settings))
    size = model.visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    # open_clip forgets the interpolation where it scales the short side for a crop that is not
    # square.
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


def _tokenizer(name: str, text_config: Mapping[str, Any]) -> Callable[[list[str]], torch.Tensor]:
    """Return what ``open_clip.get_tokenizer`` would, for a config that need not be registered."""
    tokenizers = import_open_clip().tokenizer
    length = text_config.get("context_length", tokenizers.DEFAULT_CONTEXT_LENGTH)
    options = dict(text_config.get("tokenizer_kwargs") or {})
    hub_name = text_config.get("hf_tokenizer_name")
    tokenizer: Callable[[list[str]], torch.Tensor]
    if not hub_name:
        tokenizer = tokenizers.SimpleTokenizer(context_length=length, **options)
        return tokenizer
    try:
        mode = text_config.get("tokenizer_mode")
        tokenizer = tokenizers.HFTokenizer(
            hub_name, context_length=length, tokenizer_mode=mode, **options
        )
    except ImportError as error:
        raise ModelError(
            f"texts of open_clip model {name!r} need a package: pip install transformers"
        ) from error
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ModelError(
            f"tokenizer {hub_name!r} of open_clip model {name!r} is neither cached "
            f"nor downloadable ({reason})"
        ) from error
    return tokenizer
