"""Run README.md's first two commands in a fresh clone."""

import json
import os
import re
import subprocess

import pytest

from documented_commands import read_page
from small_project import ROOT

pytestmark = pytest.mark.long

README = ROOT / "README.md"
TOLERANCE = 0.3  # of a mean accuracy: processors round differently
# `make test` must not run this test again: one file of tests, but all of lint, types and import rules
ONE_FILE = {"PYTEST_ADDOPTS": "tests/method/test_fusion.py"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def run(command, folder, **environment):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if "PYTEST" not in key} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def read_table():
    """Return the page's accuracies of `calibrated` by problem."""
    table = README.read_text(encoding="utf-8").split("<!-- table -->")[1].split("<!-- /table -->")[0]
    header, _, *rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    column = [title.strip("*") for title in header].index("calibrated")
    return {
        row[0].replace(" → ", "-"): float(row[column].strip("*").split(" ± ")[0]) for row in rows if row[0] != "mean"
    }


def test_make_repro_reproduces_the_table_of_the_page(clone):
    block = next(block for block in read_page(README).blocks if block.is_command)
    assert block.lines == ["make repro", "make test"]
    done = run("make repro", clone)
    assert done.returncode == 0, done.stderr
    documented, computed = read_table(), {}
    for problem in documented:
        file = clone / f"results/digits/problems/{problem}/comparison.json"
        computed[problem] = json.loads(file.read_text())["methods"]["calibrated"]["A_T"]
    assert len(computed) == 4
    assert computed == pytest.approx(documented, abs=TOLERANCE)
    assert "results/digits/report.html" in done.stdout
    assert (clone / "results/digits/report.html").is_file()


def test_make_test_passes_and_is_run_by_ci(clone):
    assert re.search(r"^CI=true make test\b", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    done = run("make test", clone, **ONE_FILE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
