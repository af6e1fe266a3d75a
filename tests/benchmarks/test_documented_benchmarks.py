"""The commands that docs/performance.md and docs/scale.md measure with, run at a small size; none is timed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from documented_commands import read_page
from small_project import ROOT

pytestmark = pytest.mark.long

# What makes a command small, by a word of it; {folder} is the test's own.
SMALLER = {
    "benchmarks.scale": {"benchmarks.scale": "benchmarks.scale --rows 6900"},
    "benchmarks.cluster": {"--seconds 20": "--seconds 1", "docs/": "{folder}/"},
    "benchmarks.growth": {"benchmarks.growth": "benchmarks.growth --quick --draw {folder}/g.png"},
    "benchmarks.where_time_goes": {"time_goes": "time_goes --quick"},
    "benchmarks.shards": {"--images 100000": "--images 500"},
    "benchmarks.internet_scale": {},  # small already: it measures samples
}
BLOCKS = [
    block
    for page in ("docs/performance.md", "docs/scale.md")
    for block in read_page(ROOT / page).blocks
    if block.is_command and "benchmarks." in block.text
]


def in_small(command, folder):
    (changes,) = [SMALLER[name] for name in SMALLER if f"{name} " in f"{command} "]
    for large, small in changes.items():
        assert large in command
        command = command.replace(large, small.format(folder=folder))
    return command


def run(command, **environment):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_command_that_measures(block, tmp_path):
    for command in block.lines:
        done = run(in_small(command, tmp_path))
        assert done.returncode == 0, done.stderr
        assert "|---" in done.stdout or "images/s" in done.stdout, "no figures"
    if "--draw" in block.text or "growth" in block.text:
        assert [file.suffix for file in tmp_path.iterdir()] == [".png"]


def test_every_benchmark_of_the_table_runs(tmp_path):
    """What `make bench-quick` runs; results/benchmarks.json of the reader is left alone."""
    code = (
        "import sys; from pathlib import Path; from benchmarks import run; "
        f"run.RESULTS = Path({str(tmp_path / 'benchmarks.json')!r}); sys.exit(run.main(['--quick']))"
    )
    done = run(f"{sys.executable} -c '{code.replace(chr(39), chr(34))}'")
    assert done.returncode == 0, done.stderr
    assert "failed:" not in done.stdout
    assert (tmp_path / "benchmarks.json").is_file()
