"""Let timm and open_clip import where torchvision's compiled operators do not load.

PyPI's torchvision is compiled against CUDA builds of torch. Beside a CPU build its extension cannot
load, and ``import torchvision`` then fails with "operator torchvision::nms does not exist". Neither
timm's nor open_clip's frozen encoders call these operators, so declaring their signatures is enough.
A healthy installation is left alone: its extension is loaded first and declares them itself.

Call `ensure_torchvision_ops` before you import timm or open_clip.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
OPERATORS = ("torchvision::nms", "torchvision::qnms")


def ensure_torchvision_ops() -> list[str]:
    """Declare the torchvision operators that are missing.

    Returns
    -------
    list of str
        The operators declared by this call; empty beside a healthy torchvision.
    """
    if all(_is_declared(operator) for operator in OPERATORS):
        return []
    _load_extension()
    missing = [operator for operator in OPERATORS if not _is_declared(operator)]
    for operator in missing:
        torch.library.define(operator, SIGNATURE)
    return missing


def _is_declared(operator: str) -> bool:
    namespace, name = operator.split("::")
    return hasattr(getattr(torch.ops, namespace), name)


def _load_extension() -> None:
    """Load torchvision's compiled operators as ``import torchvision`` would, if they load at all."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    for library in sorted(Path(spec.origin).parent.glob("_C*.so")):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except OSError:  # compiled for another build of torch: the case this module is for
            continue
