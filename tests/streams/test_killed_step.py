"""A step that is killed when it renames its outputs leaves whole files; run again, it gives the same bytes."""

import sys

import pytest

from shards import files_in
from stream_project import run

KILL = """
import os, sys
from pathlib import Path
count, replace = 0, Path.replace
def killed(self, target):
    global count
    count += 1
    if count == int(sys.argv[1]):
        os._exit(9)
    return replace(self, target)
Path.replace = killed
from pipeline.stage import main
sys.exit(main(["step", "camera-week2"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("rename", [1, 2, 3])
def test_a_killed_step_is_run_again(stepped, rename):
    run(stepped, "step camera-week2")
    outputs = [stepped.folder / "cache/streams", stepped.results("streams")]
    whole = [files_in(folder) for folder in outputs]
    done = stepped.run(sys.executable, "-c", KILL, str(rename), ok=False)
    assert done.returncode == 9
    assert files_in(stepped.folder / "cache/streams/camera-week1.zarr")  # the step before is as it was
    run(stepped, "step camera-week2")
    assert [files_in(folder) for folder in outputs] == whole
