"""`compare` and `sensitivity` from real caches of a tiny project; mistakes are one line."""

import csv
import json
import re
from dataclasses import replace

import pytest

from pipeline.comparison.referee_variants import referee_variant
from pipeline.errors import InputError
from pipeline.stages import compare, tables
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


def refuses(_):
    raise InputError("there is too little weight\nfor it")


def with_methods(project, monkeypatch, *methods):
    """Run stages in this process, `paper` being a method that cannot run here."""
    broken = replace(referee_variant("paper"), run=refuses)
    known = compare.compared_method
    monkeypatch.setattr(compare, "compared_method", lambda m: broken if m == "paper" else known(m))
    monkeypatch.chdir(project.folder)
    project.write_params(small_params() | {"compare": {"methods": list(methods)}, "swept": {}})


def test_a_method_that_cannot_run_is_a_row_with_its_reason(project, monkeypatch, capsys):
    with_methods(project, monkeypatch, "source_only", "paper", "calibrated")
    assert compare.main(["left-right"]) == 0
    reason = "seed 0: there is too little weight for it"
    assert f"compare left-right: paper failed: {reason}\n" in capsys.readouterr().err
    told = json.loads((project.folder / "results/comparison/left-right.json").read_text())
    assert list(told) == ["source_only", "paper", "calibrated"]
    assert told["paper"].keys() == {"title", "group", "source_samples", "failed"}
    assert told["paper"]["failed"] == reason
    assert told["calibrated"]["A_T"] >= 0
    metrics = json.loads((project.folder / "results/methods/left-right.json").read_text())
    assert metrics["A_T"].keys() == {"source_only", "calibrated"}
    assert metrics["failed"] == {"paper": reason}
    assert tables.main([]) == 0
    assert f"paper: failed on left-right ({reason})" in capsys.readouterr().out
    for ending in ("md", "csv", "tex"):
        text = (project.folder / f"results/suite/comparison.{ending}").read_text()
        row = next(line for line in text.splitlines() if re.search("as printed|^paper", line))
        assert not re.search(r"\d", row.partition("failed")[0]), row  # there, without a figure
    assert (
        f"failed on left-right ({reason})"
        in (project.folder / "results/suite/comparison.md").read_text()
    )


def test_where_no_method_can_run_the_stage_fails_and_writes_nothing(project, monkeypatch, capsys):
    with_methods(project, monkeypatch, "paper")
    place = project.folder / "results/comparison/left-right.json"
    before = place.read_bytes()
    assert compare.main(["left-right"]) == 2
    line = "referee: error: compare left-right: no method could run (paper: seed 0: there is"
    assert capsys.readouterr().err.startswith(line)
    assert place.read_bytes() == before


def test_a_bug_in_a_method_is_not_hidden(project, monkeypatch):
    with_methods(project, monkeypatch, "paper", "calibrated")
    broken = replace(referee_variant("paper"), run=lambda _: 1 / 0)
    monkeypatch.setattr(compare, "compared_method", lambda _: broken)
    with pytest.raises(ZeroDivisionError):
        compare.main(["left-right"])
