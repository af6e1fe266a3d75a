"""Let timm and open_clip import where torchvision's compiled operators do not load.

PyPI's torchvision is compiled against CUDA builds of torch. Beside a CPU build its extension cannot
load, and ``import torchvision`` then fails with "operator torchvision::nms does not exist". Neither
timm's nor open_clip's frozen encoders call these operators, so declaring their signatures is enough.
A healthy installation is left alone: its extension is loaded first and declares them itself.

The package calls `ensure_torchvision_ops` before it imports timm or open_clip. For a plain
``import timm`` in a notebook, ``python -m pipeline.encoders.torchvision_ops --install`` (a line of
``make env``) copies this file into site-packages with a .pth line that runs `install_hook` when
Python starts. The hook imports nothing; it acts when ``torchvision`` is first imported. This file
must therefore import the standard library only.
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
    """Declare the torchvision operators that are missing, and return them: none beside a healthy torchvision."""
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
    """Load torchvision's compiled operators as ``import torchvision`` would, if they load at all."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    for library in sorted(Path(spec.origin).parent.glob("_C*.so")):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except OSError:  # compiled for another build of torch: the case this module is for
            continue


class _Hook(importlib.abc.MetaPathFinder):
    """Declares the operators when ``torchvision`` is about to be imported; finds no module itself."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            try:
                ensure_torchvision_ops()
            except ImportError:  # no torch: torchvision's own message is the right one
                return


def install_hook() -> None:
    """Have the operators declared when ``torchvision`` is first imported in this process."""
    if "torchvision" not in sys.modules:
        sys.meta_path.insert(0, _Hook())


def install(folder: Path) -> Path:
    """Install the hook for every Python with this site-packages folder; deleting both files uninstalls it."""
    shutil.copyfile(__file__, folder / f"{HOOK}.py")
    start = folder / f"{HOOK}.pth"
    start.write_text(f"import {HOOK}; {HOOK}.install_hook()\n", encoding="utf-8")
    return start


if __name__ == "__main__":
    if sys.argv[1:] != ["--install"]:
        sys.exit("usage: python -m pipeline.encoders.torchvision_ops --install")
    install(Path(sysconfig.get_path("purelib")))
