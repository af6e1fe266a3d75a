"""Whatever part of the graph is run, a number is shown with the parameters it was made with."""

import json

import pytest

from pipeline.report.table import format_figure
from small_project import ROOT

pytestmark = pytest.mark.slow


def experiments(project):
    """Return the rows of `dvc exp show` by name: metrics and params of each."""
    shown = json.loads(project.run("dvc", "exp", "show", "--json").stdout)
    states = [exp for base in shown for group in base["experiments"] or [] for exp in group["revs"]]
    return {
        state["name"]: (
            state["data"]["metrics"]["results/toy/metrics.json"]["data"],
            state["data"]["params"]["params.yaml"]["data"]["rff"],
        )
        for state in states
    }


def test_numbers_of_dvc_and_of_the_summary_say_what_they_were_made_with(project_copy):
    project = project_copy
    before = project.results("metrics.json").read_text()
    project.run("dvc", "exp", "run", "--name", "whole", "-S", "rff.sigma=5.0", "evaluate")
    project.run("dvc", "exp", "run", "--name", "part", "-S", "rff.sigma=9.0", "source")
    found = experiments(project)
    metrics, rff = found["whole"]
    assert metrics["sigma"] == rff["sigma"] == 5.0
    evaluated = json.loads(project.results("evaluations", "left-right.json").read_text())
    assert metrics["mean"] == evaluated["A_T"]
    figure = format_figure(evaluated["A_T"], evaluated["A_T_sd"], plus_minus="±")
    assert metrics["left-right"] == figure
    assert {**metrics, "sigma": 0} != {**json.loads(before), "sigma": 0}, "the numbers differ"
    metrics, rff = found["part"]  # the stages that it ran have no numbers: those of `whole` stay
    assert (metrics["sigma"], rff["sigma"]) == (5.0, 9.0)
    narrow = project.run("dvc", "exp", "show", "--only-changed", "--no-pager", COLUMNS="120").stdout
    assert all(column in narrow for column in ("mean", "left-right", "sigma", "rff.sigma"))
    changes = project.run("dvc", "metrics", "diff", "HEAD", "whole").stdout
    assert 1 < len(changes.splitlines()) <= 1 + len(metrics)
    assert max(map(len, (narrow + changes).splitlines())) <= 120
    summary = project.run("referee", "summary").stdout
    assert "made with rff.sigma=0.0001" in summary  # the compared methods
    assert "made with rff.sigma=5" in summary  # the evaluation
    assert project.stage("evaluate", "left-right", ok=False).returncode == 2  # a half-run graph


@pytest.mark.long
def test_what_dvc_says_itself_is_on_the_page_of_the_stages(project_copy):
    """docs/stages.md has DVC's own error where images are missing, and what it makes of a group without stages."""
    project, page = project_copy, (ROOT / "docs/stages.md").read_text()
    project.write_params(project.read_params() | {"swept": {}})
    assert "'report'" in project.run("dvc", "repro", "--dry", "select").stdout
    assert "swept: {}" in page
    (project.folder / "data/left").rename(project.folder / "data/gone")
    failed = project.run("dvc", "repro", "manifest@left", ok=False).stderr
    error = next(line for line in failed.splitlines() if line.startswith("ERROR: failed to reproduce"))
    assert error.replace("left'", "DOMAIN'", 1).split(": '")[0] in page
    checked = project.run("referee", "check", ok=False)
    assert (checked.returncode, "data/left: no such file or folder" in checked.stderr) == (2, True)
