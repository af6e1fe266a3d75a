"""Make timm and open_clip importable if torchvision's compiled operators do not load.

PyPI's torchvision is compiled against CUDA builds of torch. With a CPU build of torch its extension does not load, and
``import torchvision`` fails with "operator torchvision::nms does not exist". The frozen encoders of timm and open_clip
never call these operators, so declaring their signatures is enough. A working installation is not changed: its
extension is loaded first and declares the operators itself.

The package calls `ensure_torchvision_ops` before it imports timm or open_clip. For a plain ``import timm`` in a
notebook, ``python -m pipeline.encoders.torchvision_ops --install`` (part of ``make env``) copies this file into
site-packages with a .pth file that runs `install_hook` when Python starts. The hook imports nothing until
``torchvision`` is first imported. This file must therefore import only the standard library at module level.
"""

import importlib.abc
import importlib.util
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
OPERATORS = ("torchvision::nms", "torchvision::qnms")
HOOK = "referee_torchvision_ops"  # name of the copy in site-packages


def ensure_torchvision_ops() -> list[str]:
    """Declare the missing torchvision operators and return their names (none if torchvision works)."""
    import torch

    if all(_is_declared(operator) for operator in OPERATORS):
        return []
    _load_extension()
    missing = [operator for operator in OPERATORS if not _is_declared(operator)]
    for operator in missing:
        torch.library.define(operator, SIGNATURE)
    return missing


def _is_declared(operator: str) -> bool:
    import torch

    namespace, name = operator.split("::")
    return hasattr(getattr(torch.ops, namespace), name)


def _load_extension() -> None:
    """Load torchvision's compiled operators as ``import torchvision`` would, if possible."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    for library in sorted(Path(spec.origin).parent.glob("_C*.so")):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except OSError:  # compiled for another build of torch
            continue


class _Hook(importlib.abc.MetaPathFinder):
    """Finder that declares the operators before ``torchvision`` is imported; it finds no module itself."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            try:
                ensure_torchvision_ops()
            except ImportError:  # no torch: leave the error message to torchvision
                return


def install_hook() -> None:
    """Declare the operators when ``torchvision`` is first imported in this process."""
    if "torchvision" not in sys.modules:
        sys.meta_path.insert(0, _Hook())


def install(folder: Path) -> Path:
    """Install the hook into a site-packages folder; deleting both files uninstalls it."""
    shutil.copyfile(__file__, folder / f"{HOOK}.py")
    start = folder / f"{HOOK}.pth"
    start.write_text(f"import {HOOK}; {HOOK}.install_hook()\n", encoding="utf-8")
    return start


if __name__ == "__main__":
    if sys.argv[1:] != ["--install"]:
        sys.exit("usage: python -m pipeline.encoders.torchvision_ops --install")
    install(Path(sysconfig.get_path("purelib")))
