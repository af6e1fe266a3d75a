"""Weights from local files, without ever executing what is in the file."""

from __future__ import annotations

import argparse
import hashlib
import pickle
import re
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from pipeline.encoders import torchscript_archive
from pipeline.encoders.origin import CHECKPOINT_SUFFIXES
from pipeline.errors import ModelError, listed

# Where training scripts put the weights inside a checkpoint; averaged weights first, as timm does.
WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
PREFIXES = ("module.", "_orig_mod.")  # left by DistributedDataParallel and torch.compile

# What a library's conversion of foreign key names raises on weights of another model.
FILTER_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)

_DAMAGED = (
    safetensors.SafetensorError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    OverflowError,
    MemoryError,
)


def load_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors in a .safetensors, .pth, .pt or .bin file, on the CPU, wrappers removed.

    Pickles are read by torch's ``weights_only`` reader, which builds tensors and plain containers
    and refuses everything else. TorchScript archives (OpenAI's original CLIP files) are read by our
    own reader of tensors: ``torch.jit.load`` would run the file's ``__setstate__`` methods.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint file")
    if path.suffix not in CHECKPOINT_SUFFIXES:
        raise ModelError(
            f"{path}: unknown kind of checkpoint; expected {listed(CHECKPOINT_SUFFIXES)}"
        )
    try:
        if path.suffix == ".safetensors":
            content: Any = safetensors.torch.load_file(path, device="cpu")
        elif torchscript_archive.is_archive(path):
            content = torchscript_archive.read_tensors(path)
        else:
            content = _load_pickle(path)
    except _DAMAGED as error:
        raise ModelError(
            f"{path}: damaged or truncated checkpoint ({_first_line(error)}); "
            "copy or download it again"
        ) from error
    return _unwrap(content, path)


def load_strictly(
    model: torch.nn.Module, state: dict[str, torch.Tensor], what: str, checkpoint: Path
) -> None:
    """Load ``state`` into ``model``: every key on both sides, every shape."""
    try:
        missing, unknown = model.load_state_dict(state, strict=False)
    except RuntimeError as error:  # shapes differ
        raise misfit(checkpoint, what, " ".join(str(error).split())[:300]) from error
    parts = []
    if missing:
        parts.append(f"{len(missing)} keys missing: {listed(missing, most=3)}")
    if unknown:
        parts.append(f"{len(unknown)} keys unknown: {listed(unknown, most=3)}")
    if parts:
        raise misfit(checkpoint, what, "; ".join(parts))


def misfit(checkpoint: Path, what: str, reason: str) -> ModelError:
    """One line for a checkpoint that belongs to another model."""
    return ModelError(
        f"{checkpoint} is not a checkpoint of {what} ({reason}); "
        "check the model's name and its arguments or config"
    )


def state_fingerprint(module: torch.nn.Module) -> str:
    """SHA-256 over (name, dtype, shape, bytes) of a module's state, from whatever file it came."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        data = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(data.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _load_pickle(path: Path) -> Any:
    try:
        # timm's training script stores its arguments, a Namespace, beside the weights.
        with (
            torch.serialization.safe_globals([argparse.Namespace]),
            warnings.catch_warnings(),
        ):
            # our own line says what is wrong with a pickle that torch would not have written
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        refused = re.search(
            r"(?:GLOBAL|global|function|class) [`']?([A-Za-z_][\w.]*\.[\w.]+)", str(error)
        )
        if refused is None:
            raise
        raise ModelError(
            f"{path}: refused, because loading it would run pickled code ({refused[1]}); "
            "save the bare state dict as .safetensors where you trust the file"
        ) from error


def _unwrap(content: Any, path: Path) -> dict[str, torch.Tensor]:
    """Find the state dict in a checkpoint; remove what wrappers put before its keys."""
    for wrapper in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
            break
    is_state = isinstance(content, dict) and all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in content.items()
    )
    if not is_state or not content:
        raise ModelError(
            f"{path}: holds no state dict (a mapping of names to tensors, bare or under "
            f"{listed(WRAPPERS)}); save model.state_dict()"
        )
    state: dict[str, torch.Tensor] = dict(content)
    for prefix in PREFIXES:
        if all(key.startswith(prefix) for key in state):
            state = {key.removeprefix(prefix): tensor for key, tensor in state.items()}
    return state


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
