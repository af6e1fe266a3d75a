"""`compare` and `sensitivity` from real caches of a tiny project; mistakes are one line."""

import csv
import json

import pytest

from small_project import SmallProject, small_params

STAGES = [
    *(("model", m) for m in ("vit", "clip")),
    *(("manifest", d) for d in ("left", "right")),
    *(("embed", d, m) for d in ("left", "right") for m in ("vit", "clip")),
    ("prompts", "right"),
    *(("basis", "left"), ("source", "left"), ("pseudo_label", "left-right")),
    *(("refine", "left-right"), ("adapt", "left-right"), ("evaluate", "left-right")),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create()
    for stage, *arguments in STAGES:
        made.stage(stage, *arguments)
    return made


def test_calibrated_is_what_evaluate_says(project):
    project.stage("compare", "left-right")
    told = json.loads((project.folder / "results/comparison/left-right.json").read_text())
    assert list(told) == small_params()["compare"]["methods"]
    evaluated = json.loads((project.folder / "results/metrics/left-right.json").read_text())
    for name in ("A_T", "A_T_sd", "average_incremental", "forgetting", "A_T_per_seed"):
        assert told["calibrated"][name] == evaluated[name]
    assert told["source_only"]["A_T"] == evaluated["source_only_A_T"]
    assert told["clip_zero_shot"]["A_T"] == evaluated["clip_only_A_T"]


def test_a_sweep_passes_through_the_figure_of_its_own_D_and_sigma(project):
    params = small_params()
    params["sensitivity"] = {"D": [20, 50], "sigma": [1e-4, 1e-2]}
    project.write_params(params)
    project.stage("sensitivity", "left-right")
    evaluated = json.loads((project.folder / "results/metrics/left-right.json").read_text())
    for what, value in (("D", "50"), ("sigma", "0.0001")):
        file = project.folder / "results/sensitivity/left-right" / f"{what}.csv"
        with file.open() as opened:
            rows = {row[what]: row for row in csv.DictReader(opened)}
        assert float(rows[value]["A_T"]) == evaluated["A_T"]


def test_an_unknown_method_is_one_line_and_writes_nothing(project):
    params = small_params()
    params["compare"] = {"methods": ["calibratd"]}
    project.write_params(params)
    before = (project.folder / "results/comparison/left-right.json").read_bytes()
    failed = project.stage("compare", "left-right", ok=False)
    assert failed.returncode == 2
    (line,) = failed.stderr.splitlines()
    assert "compare.methods: no method 'calibratd'; did you mean 'calibrated'?" in line
    assert (project.folder / "results/comparison/left-right.json").read_bytes() == before
