"""Load weights from local files without executing any code in them."""

import hashlib
import pickle
import re
import struct
import warnings
import zipfile
from pathlib import Path

import safetensors
import torch

from pipeline.encoders.origin import CHECKPOINT_SUFFIXES
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops
from pipeline.errors import ModelError, counted, listed

# Raised by a library's conversion of foreign key names on weights of another model.
FILTER_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)
# Raised by the readers of torch and safetensors on truncated or damaged files.
_DAMAGED = (
    *(safetensors.SafetensorError, pickle.UnpicklingError, zipfile.BadZipFile, struct.error),
    *(OSError, EOFError, OverflowError, MemoryError, *FILTER_ERRORS),
)
_REFUSED = re.compile(r"(?:GLOBAL|global|function|class) [`']?([A-Za-z_][\w.]*\.[\w.]+)")


def load_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint file, without the wrappers and prefixes of training scripts.

    timm reads the file, either with safetensors or with torch's ``weights_only`` reader, which refuses everything but
    tensors and plain containers. TorchScript archives are refused because ``torch.jit.load`` would run the
    ``__setstate__`` methods in them.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint file")
    if path.suffix not in CHECKPOINT_SUFFIXES:
        raise ModelError(f"{path}: unknown kind of checkpoint; expected {listed(CHECKPOINT_SUFFIXES)}")
    ensure_torchvision_ops()
    import timm.models

    try:
        _refuse_torchscript(path)
        with warnings.catch_warnings():
            # the ModelError below already explains what is wrong with such a pickle
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            state = timm.models.load_state_dict(str(path), weights_only=True)
    except _DAMAGED as error:
        raise _unreadable(path, error) from error
    if not state or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise _no_state_dict(path)
    return dict(state)


def _refuse_torchscript(path: Path) -> None:
    """Raise ModelError for a TorchScript archive, such as OpenAI's original CLIP files, and name the alternatives."""
    if path.suffix == ".safetensors" or not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        is_torchscript = any(name.endswith("/constants.pkl") for name in archive.namelist())
    if is_torchscript:
        raise ModelError(
            f"{path}: a TorchScript archive, which loading would execute; use the hub's .safetensors of the "
            "same weights (for OpenAI's CLIP: pretrained: openai) or, if you trust the file, save "
            'torch.jit.load(FILE, map_location="cpu").state_dict() with safetensors.torch.save_file'
        )


def _no_state_dict(path: Path) -> ModelError:
    return ModelError(
        f"{path}: holds no state dict (a mapping of names to tensors, bare or under "
        "state_dict or model); save model.state_dict()"
    )


def _unreadable(path: Path, error: BaseException) -> ModelError:
    """Return the error for a file that would run code, has no state dict, or is damaged."""
    cause = error.__cause__ if isinstance(error.__cause__, pickle.UnpicklingError) else error
    if isinstance(cause, pickle.UnpicklingError) and (refused := _REFUSED.search(str(cause))):
        return ModelError(
            f"{path}: refused, because loading it would run pickled code ({refused[1]}); "
            "save the bare state dict as .safetensors if you trust the file"
        )
    if isinstance(error, AttributeError):  # the content is not a mapping with string keys
        return _no_state_dict(path)
    reason = (str(cause).strip().splitlines() or [type(error).__name__])[0][:200]
    return ModelError(f"{path}: damaged or truncated checkpoint ({reason}); copy or download it again")


def load_strictly(model: torch.nn.Module, state: dict[str, torch.Tensor], model_label: str, checkpoint: Path) -> None:
    """Load ``state`` into ``model``; raise ModelError unless every key and every shape agrees.

    The error names the model (``model_label``) and the file that the weights come from (``checkpoint``).
    """
    try:
        missing, unknown = model.load_state_dict(state, strict=False)
    except RuntimeError as error:  # shapes differ
        raise misfit(checkpoint, model_label, error) from error
    mismatches = {"missing": missing, "unknown": unknown}
    parts = [f"{counted(len(keys), 'key')} {kind}: {listed(keys, most=3)}" for kind, keys in mismatches.items() if keys]
    if parts:
        raise misfit(checkpoint, model_label, "; ".join(parts))


def misfit(checkpoint: Path, model_label: str, reason: object) -> ModelError:
    """Return the error for a checkpoint that belongs to another model."""
    return ModelError(
        f"{checkpoint} is not a checkpoint of {model_label} ({' '.join(str(reason).split())[:300]}); "
        "check the model's name and its arguments or config"
    )


def state_fingerprint(module: torch.nn.Module) -> str:
    """Return the SHA-256 of a module's state: the name, dtype, shape and bytes of every tensor."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        data = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(data.view(torch.uint8).numpy()))
    return digest.hexdigest()
