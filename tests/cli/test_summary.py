"""`referee summary` ends with the headline table where every problem was compared, else with each problem's metrics."""

import json

import pytest

from pipeline.cli.main import main
from pipeline.stages import places
from small_project import SmallProject, small_params

PROBE = {
    "images": 12,
    "zero_shot": 0.5,
    "nearest_mean": 0.6,
    "nearest_mean_sd": 0.01,
    "view_cosine": {"zeros": 0.9},
}
METRICS = {
    "A_T": 91.0,
    "A_T_sd": 0.5,
    "clip_only_A_T": 80.0,
    "source_only_A_T": 70.0,
    "forgetting": 1.0,
    "pseudo_label_accuracy": 95.0,
}


def compared(a_t, title):
    entry = {"title": title, "group": "referee", "source_samples": False}
    return {**entry, "A_T": a_t, "A_T_sd": 0.4, "A_T_per_seed": [a_t - 0.4, a_t + 0.4]}


def write(path, told):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))


@pytest.fixture
def problems(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = small_params()
    params["sources"]["right"] = {}
    params["problems"]["right-left"] = {"source": "right", "target": "left"}
    SmallProject(tmp_path).write_params(params)
    for domain in params["domains"]:
        write(places.probe(domain), PROBE)
    for problem in params["problems"]:
        write(places.metrics(problem), METRICS)
        told = {"source_only": compared(70.0, "source"), "calibrated": compared(93.3, "calibrated")}
        write(places.comparison(problem), told)
    return list(params["problems"])


def test_the_headline_of_what_was_compared(problems, capsys):
    assert main(["summary"]) == 0
    said = capsys.readouterr().out
    assert said.index("features of suite toy") < said.index("Final accuracy, toy")
    (line,) = [line for line in said.splitlines() if line.startswith("right-left")]
    assert " ".join(line.split()) == "right-left – 70.0 ± 0.4 – – 93.3 ± 0.4* +23.3"
    assert "pseudo-labels" not in said


@pytest.mark.parametrize(
    "changed",
    [
        {"method": {"variant": "paper", "options": {}}},
        {"method": {"variant": "calibrated", "options": {"ridge": 0.5}}},
        {"refinement": {"steps": 2, "step_size": 0.01, "radius": 0.03, "mutual_attention": False}},
    ],
)
def test_a_method_that_no_comparison_runs_has_a_table_of_its_own(
    problems, tmp_path, capsys, changed
):
    SmallProject(tmp_path).change_params(**changed)
    assert main(["summary"]) == 0
    said = capsys.readouterr().out
    assert said.index("Final accuracy, toy") < said.index("final accuracy A_T, variant ")
    assert ("ridge 0.5" in said) == ("ridge" in str(changed))
    assert "91.0 ± 0.5" in said


def test_where_the_report_is_comes_last(problems, capsys):
    assert main(["summary"]) == 0
    assert "report" not in capsys.readouterr().out
    write(places.report(), "a page")
    assert main(["summary"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("report: results/report.html ")


def test_a_problem_that_was_not_compared(problems, capsys):
    places.comparison(problems[1]).unlink()
    assert main(["summary"]) == 0
    said = capsys.readouterr().out
    assert "pseudo-labels" in said
    assert "91.0 ± 0.5" in said
    assert "93.3" not in said


def test_a_comparison_that_is_no_comparison(problems, capsys):
    places.comparison(problems[1]).write_text("{")
    assert main(["summary"]) == 2
    assert "results/comparison/right-left.json: not JSON; run dvc" in capsys.readouterr().err
