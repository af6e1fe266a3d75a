"""Weights of open_clip models: where they are, which activation they want, and loading them strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.encoders import hub
from pipeline.encoders.checkpoints import FILTER_ERRORS, load_strictly, misfit
from pipeline.encoders.clip_config import HUB_PREFIX
from pipeline.encoders.origin import find_checkpoint
from pipeline.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch

HUB_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
# Entries of OpenAI's original files, and of no other checkpoint: settings stored as tensors.
OPENAI_MARKS = frozenset({"input_resolution", "context_length", "vocab_size"})


def find_weights(
    name: str, origin: Path | None, pretrained: str | None, tag_config: Mapping[str, Any]
) -> Path:
    """Return the local checkpoint, or the hub's file for the tag."""
    local = None if origin is None else find_checkpoint(origin)
    if local is not None:
        return local
    if name.startswith(HUB_PREFIX):
        return hub.fetch(
            name.removeprefix(HUB_PREFIX), HUB_FILES, what=repr(name), destination=origin
        )
    if not tag_config:
        raise ModelError(
            f"{origin}: holds no checkpoint of open_clip model {name!r}; "
            "put one there, or give a tag as pretrained"
        )
    repository, _, file_name = str(tag_config["hf_hub"]).rpartition("/")
    names = (file_name,) if file_name else HUB_FILES
    what = f"open_clip model {name!r} with tag {pretrained!r}"
    return hub.fetch(repository, names, what=what, destination=origin)


def uses_quick_gelu(
    wanted: str | bool,
    tag_config: Mapping[str, Any],
    model_config: Mapping[str, Any],
    state: Mapping[str, torch.Tensor],
    checkpoint: Path,
) -> bool:
    """Decide the activation, in the order that `clip_encoder.build` documents."""
    if isinstance(wanted, bool):
        return wanted
    if wanted != "auto":
        raise ModelError(f"quick_gelu: expected auto, true or false, got {wanted!r}")
    if tag_config:
        return bool(tag_config.get("quick_gelu", False))
    if "quick_gelu" in model_config:
        return bool(model_config["quick_gelu"])
    named = f"{checkpoint.parent.name}/{checkpoint.name}".lower()
    return OPENAI_MARKS.issubset(state) or "openai" in named


def load_weights(model: Any, state: dict[str, torch.Tensor], name: str, checkpoint: Path) -> None:
    """Load ``state`` strictly, after open_clip's own conversions of older and foreign layouts."""
    from open_clip import convert
    from open_clip import model as layout

    what = f"open_clip model {name!r}"
    # Masks and the like, which a TorchScript archive keeps and a state dict does not.
    transient = {key for key, _ in model.named_buffers()} - set(model.state_dict())
    dropped = transient | OPENAI_MARKS
    state = {key: tensor for key, tensor in state.items() if key not in dropped}
    try:
        state = convert.convert_state_dict(model, state)
        if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
            state = layout.convert_to_custom_text_state_dict(state)
        for key in (
            "logit_scale",
            "logit_bias",
        ):  # a number in some checkpoints, one element in others
            parameter = getattr(model, key, None)
            if key in state and parameter is not None:
                state[key] = state[key].reshape(parameter.shape)
        state.pop(
            "text.transformer.embeddings.position_ids", None
        )  # a buffer of old transformers versions
        layout.resize_pos_embed(state, model)
        layout.resize_text_pos_embed(state, model)
    except FILTER_ERRORS as error:
        raise misfit(checkpoint, what, " ".join(str(error).split())[:300]) from error
    load_strictly(model, state, what, checkpoint)
