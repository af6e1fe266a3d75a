"""The table of benchmarks, and that the baseline of the released code computes the same. No timing is a test."""

import importlib
import json

import pytest

from benchmarks import run, statistics
from benchmarks.measure import Row, at_least, at_most
from small_project import ROOT

ROWS = [
    Row("this", 12.0, "that: 24 s", "≥ 10×", True, "2 s", module="statistics"),
    at_most("those", 9.0, "–", 8, "", unit="s"),
]


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


MODULES = sorted(file.stem for file in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name):
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__
