"""timm and open_clip import beside any build of torchvision, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_timm_and_open_clip_import() -> None:
    code = (
        "from pipeline.encoders.torchvision_ops import ensure_torchvision_ops as ensure\n"
        "ensure()\n"
        "import timm, open_clip, torchvision\n"
        "print(ensure() == [], timm.is_model('efficientnet_lite0'))"
    )
    assert run(code) == ["True", "True"]


def test_declared_operators_are_left_alone() -> None:
    code = (
        "import torch\n"
        "from pipeline.encoders import torchvision_ops as ops\n"
        "for name in ops.OPERATORS: torch.library.define(name, ops.SIGNATURE)\n"
        "torch.library.define = None\n"
        "print(ops.ensure_torchvision_ops() == [])"
    )
    assert run(code) == ["True"]
