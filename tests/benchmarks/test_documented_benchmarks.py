"""The benchmarks: their table, and the commands that the docs measure with, run in small. No timing is a test."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import run, statistics
from benchmarks.measure import Row, at_least, at_most
from documented_commands import read_page
from small_project import ROOT

ROWS = [
    Row("this", 12.0, "that: 24 s", "≥ 10×", True, "2 s", module="statistics"),
    at_most("those", 9.0, "–", 8, "", unit="s"),
]


@pytest.mark.parametrize("name", sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py")))
def test_a_benchmark_can_be_imported_and_says_what_it_is(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


def test_every_row_stands_in_the_table_with_its_command():
    lines = run.table(ROWS).splitlines()
    assert len(lines) == 4
    assert "| this | 12.00× | that: 24 s | ≥ 10× | yes | 2 s | `statistics` |" in lines
    assert "9.00 s | – | ≤ 8 s | **no**" in lines[3]


def test_a_goal_just_missed_is_missed():
    assert not at_least("", 9.999, "", 10, "").met
    assert not at_most("", 1.501, "", 1.5, "").met


def test_the_released_algorithm_written_apart_predicts_what_the_variant_predicts():
    released, _ = statistics.against_the_released_code(D=80)
    assert "100.0% of the predictions after every task are the same" in released.detail


def test_a_run_in_which_one_failed_leaves_the_docs_alone(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"{run.MARKS[0]}old{run.MARKS[1]}")
    monkeypatch.setattr(run, "DOCS", page)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "benchmarks.json")
    failed = Row("views", float("nan"), "–", "–", False, "failed, exit 1")
    monkeypatch.setattr(run, "run_apart", lambda name, quick: [failed])
    assert run.main(["--docs"]) == 1
    assert "old" in page.read_text()
    assert "failed" in capsys.readouterr().err
    assert json.loads((tmp_path / "benchmarks.json").read_text())[0]["ratio"] is None


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


def shell(command, **environment):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_command_that_measures(block, tmp_path):
    for command in block.lines:
        done = shell(in_small(command, tmp_path))
        assert done.returncode == 0, done.stderr
        assert "|---" in done.stdout or "images/s" in done.stdout, "no figures"
    if "--draw" in block.text or "growth" in block.text:
        assert [file.suffix for file in tmp_path.iterdir()] == [".png"]


@pytest.mark.long
def test_every_benchmark_of_the_table_runs(tmp_path):
    """What `make bench-quick` runs; results/benchmarks.json of the reader is left alone."""
    code = (
        "import sys; from pathlib import Path; from benchmarks import run; "
        f"run.RESULTS = Path({str(tmp_path / 'benchmarks.json')!r}); sys.exit(run.main(['--quick']))"
    )
    done = shell(f"{sys.executable} -c '{code.replace(chr(39), chr(34))}'")
    assert done.returncode == 0, done.stderr
    assert "failed:" not in done.stdout
    assert (tmp_path / "benchmarks.json").is_file()
