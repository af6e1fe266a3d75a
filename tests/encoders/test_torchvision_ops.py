"""timm and open_clip import beside any build of torchvision, in a process of its own."""

import subprocess
import sys

from small_project import ROOT

CODE = """
from pipeline.encoders.torchvision_ops import ensure_torchvision_ops as ensure
ensure()
import timm, open_clip, torchvision
print(ensure() == [], timm.is_model('efficientnet_lite0'))
"""


def test_timm_and_open_clip_import_after_the_operators_are_declared():
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "True"]
