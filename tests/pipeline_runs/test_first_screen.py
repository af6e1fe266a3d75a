"""README.md's first two commands in a fresh clone, nothing else before them: many minutes, so `make test-long` only."""

import json
import os
import re
import subprocess

import pytest

from documented_commands import read_page
from small_project import ROOT

pytestmark = pytest.mark.long

README = ROOT / "README.md"
WITHIN = 0.3  # of a mean accuracy: another processor may round otherwise
# `make test` would run this test again: of the tests only one file, but lint, types and import rules as they are
ONE_FILE = {"PYTEST_ADDOPTS": "tests/method/test_fusion.py"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def commands():
    block = next(block for block in read_page(README).blocks if block.is_command)
    return block.lines


def run(command, folder, **environment):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if "PYTEST" not in key} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def shown():
    """Return what the page's table says of `calibrated`, by problem."""
    table = README.read_text(encoding="utf-8").split("<!-- table -->")[1].split("<!-- /table -->")[0]
    header, _, *rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    column = [title.strip("*") for title in header].index("calibrated")
    return {
        row[0].replace(" → ", "-"): float(row[column].strip("*").split(" ± ")[0]) for row in rows if row[0] != "mean"
    }


def test_the_first_gives_the_table_that_the_page_shows(clone):
    assert commands() == ["make repro", "make test"]
    done = run("make repro", clone)
    assert done.returncode == 0, done.stderr
    found = {
        problem: json.loads((clone / f"results/digits/problems/{problem}/comparison.json").read_text())
        for problem in shown()
    }
    assert len(found) == 4
    assert {p: entries["methods"]["calibrated"]["A_T"] for p, entries in found.items()} == {
        problem: pytest.approx(mean, abs=WITHIN) for problem, mean in shown().items()
    }
    assert "results/digits/report.html" in done.stdout
    assert (clone / "results/digits/report.html").is_file()


def test_the_second_passes_and_is_what_ci_runs(clone):
    assert re.search(r"^CI=true make test\b", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    done = run("make test", clone, **ONE_FILE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
