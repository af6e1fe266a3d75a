"""Test the table of benchmarks, and run the documented measuring commands on small data, without asserting timings."""

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
def test_a_benchmark_can_be_imported_and_has_a_docstring(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


def test_the_table_shows_every_row_with_its_module():
    lines = run.table(ROWS).splitlines()
    assert len(lines) == 4
    assert "| this | 12.00× | that: 24 s | ≥ 10× | yes | 2 s | `statistics` |" in lines
    assert "9.00 s | – | ≤ 8 s | **no**" in lines[3]


def test_a_goal_missed_by_a_rounding_error_is_missed():
    assert not at_least("", 9.999, "", 10, "").met
    assert not at_most("", 1.501, "", 1.5, "").met


def test_the_released_algorithm_predicts_the_same_as_the_released_variant():
    released, _ = statistics.against_the_released_code(D=80)
    assert "100.0% of the predictions after every task are the same" in released.detail


def test_a_failed_benchmark_leaves_the_docs_unchanged(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"{run.MARKS[0]}old{run.MARKS[1]}")
    monkeypatch.setattr(run, "DOCS", page)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "benchmarks.json")
    failed = Row("views", float("nan"), "–", "–", False, "failed, exit 1")
    monkeypatch.setattr(run, "run_in_new_process", lambda name, quick: [failed])
    assert run.main(["--docs"]) == 1
    assert "old" in page.read_text()
    assert "failed" in capsys.readouterr().err
    assert json.loads((tmp_path / "benchmarks.json").read_text())[0]["ratio"] is None


# replacements that make each benchmark's command small; {folder} is the test's folder
SMALLER = {
    "benchmarks.scale": {"benchmarks.scale": "benchmarks.scale --rows 6900"},
    "benchmarks.cluster": {"--seconds 20": "--seconds 1", "docs/": "{folder}/"},
    "benchmarks.growth": {"benchmarks.growth": "benchmarks.growth --quick --draw {folder}/g.png"},
    "benchmarks.where_time_goes": {"time_goes": "time_goes --quick"},
    "benchmarks.shards": {"--images 100000": "--images 500"},
    "benchmarks.internet_scale": {},  # already small: it measures samples
}
BLOCKS = [
    block
    for page in ("docs/performance.md", "docs/scale.md")
    for block in read_page(ROOT / page).blocks
    if block.is_command and "benchmarks." in block.text
]


def reduced(command, folder):
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
def test_a_documented_measuring_command_prints_figures(block, tmp_path):
    for command in block.lines:
        process = shell(reduced(command, tmp_path))
        assert process.returncode == 0, process.stderr
        assert "|---" in process.stdout or "images/s" in process.stdout, "no figures"
    if "--draw" in block.text or "growth" in block.text:
        assert [file.suffix for file in tmp_path.iterdir()] == [".png"]


@pytest.mark.long
def test_every_benchmark_of_the_table_runs(tmp_path):
    """Run the code of `make bench-quick` without overwriting results/benchmarks.json."""
    code = (
        "import sys; from pathlib import Path; from benchmarks import run; "
        f"run.RESULTS = Path({str(tmp_path / 'benchmarks.json')!r}); sys.exit(run.main(['--quick']))"
    )
    process = shell(f"{sys.executable} -c '{code.replace(chr(39), chr(34))}'")
    assert process.returncode == 0, process.stderr
    assert "failed:" not in process.stdout
    assert (tmp_path / "benchmarks.json").is_file()
