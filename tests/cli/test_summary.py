"""`referee summary`: a table of compared methods if every problem has a comparison, else one of the problems."""

import json
import shutil

import pytest

from pipeline import paths
from pipeline.cli.main import main
from pipeline.report.page.provenance import figures_digest

PROBE = {"images": 1200, "test_images": 120, "classes": 4, "zero_shot": 0.5, "view_cosine": {"zeros": 0.9}}
PROBE |= {"nearest_mean": 0.6, "nearest_mean_sd": 0.01}
MADE_WITH = {"rff.D": 50, "rff.sigma": 1e-4, "vision": "vit"}
METRICS = {"test_images": 120, "classes": 4, "made_with": MADE_WITH, "A_T": 91.0, "A_T_sd": 0.5, "clip_only_A_T": 80.0}
METRICS |= {"source_only_A_T": 70.0, "forgetting": 1.0, "pseudo_label_accuracy": 95.0}


def method_entry(a_t, title):
    figures = {"A_T": a_t, "A_T_sd": 0.4, "A_T_per_seed": [a_t - 0.4, a_t + 0.4]}
    return {"title": title, "group": "referee", "source_samples": False, **figures}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def project(params_only):
    problem = {"source": "right", "target": "left"}
    params_only.change_params(sources={"right": {}}, problems={"right-left": problem})
    params = params_only.read_params()
    for domain in params["domains"]:
        write(paths.probe("toy", domain), PROBE)
    for problem in params["problems"]:
        write(paths.evaluation("toy", problem), METRICS)
        methods = {name: method_entry(a_t, name) for name, a_t in (("source_only", 70.0), ("calibrated", 93.3))}
        write(paths.comparison("toy", problem), {"made_with": MADE_WITH, "test_images": 120, "methods": methods})
    return params_only


def summary(capsys):
    assert main(["summary"]) == 0
    return capsys.readouterr().out


def test_methods_are_compared_side_by_side_above_the_report(project, capsys):
    text = summary(capsys)
    assert text.index("features of suite toy") < text.index("Final accuracy, toy")
    (line,) = [line for line in text.splitlines() if line.startswith("right-left")]
    assert " ".join(line.split()) == "right-left 120 70.0±0.4 93.3±0.4* +23.3"
    assert "pseudo-labels" not in text
    assert "report" not in text
    digest = figures_digest(paths.figures("toy", ["left-right", "right-left"]))
    paths.report("toy").write_text(f'<meta name="figures" content="{digest}">')
    assert summary(capsys).splitlines()[-1].startswith(f"report: {paths.report('toy')} (open it")
    write(paths.evaluation("toy", "left-right"), METRICS | {"A_T": 90.0})  # as after checking out another commit
    assert "dvc repro --force report" in summary(capsys).splitlines()[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"method": {"variant": "paper", "options": {}}},
        {"method": {"variant": "calibrated", "options": {"ridge": 0.5}}},
        {"refinement": {"steps": 2, "step_size": 0.01, "radius": 0.03, "mutual_attention": False}},
    ],
)
def test_method_outside_the_comparison_has_a_separate_table(project, capsys, changes):
    project.change_params(**changes)
    text = summary(capsys)
    assert text.index("Final accuracy, toy") < text.index("final accuracy A_T, variant ")
    assert ("ridge 0.5" in text) == ("ridge" in str(changes))
    assert "91.0±0.5" in text


def test_evaluations_without_comparison_and_missing_results(project, capsys, refused):
    paths.comparison("toy", "right-left").unlink()  # this problem was not compared
    text = summary(capsys)
    assert "91.0±0.5" in text
    assert "93.3" not in text
    shutil.rmtree(paths.probe("toy", "left").parent)
    paths.comparison("toy", "left-right").unlink()
    assert "91.0±0.5" in summary(capsys)
    for problem in ("left-right", "right-left"):
        paths.evaluation("toy", problem).unlink()
    assert "results/toy: no results yet; run dvc repro" in refused(main, "summary")


def test_damaged_and_missing_results_are_reported(project, refused):
    damaged, missing = paths.comparison("toy", "right-left"), paths.probe("toy", "left")
    damaged.write_text("{")
    assert f"{damaged}: Invalid JSON" in refused(main, "summary")
    missing.unlink()
    assert f"{missing}: no such file; run dvc repro" in refused(main, "summary")


def test_figures_of_other_parameters_are_marked(project, capsys):
    assert "not of today" not in summary(capsys)
    project.change_params(rff={"D": 1000})
    text = summary(capsys)
    assert text.count("left-right, right-left made with rff.D=50; run dvc repro") == 2
    fresh = {**METRICS, "made_with": {**MADE_WITH, "rff.D": 1000}, "A_T": 92.0}
    write(paths.evaluation("toy", "left-right"), fresh)
    text = summary(capsys)
    assert "! not of today's params.yaml: right-left made with rff.D=50" in text


def test_model_that_guesses_is_named_with_the_remedy(project, capsys):
    assert "guess" not in summary(capsys)
    write(paths.probe("toy", "left"), {**PROBE, "zero_shot": 0.26})
    (warning,) = [line for line in summary(capsys).splitlines() if "guesses" in line]
    assert warning.startswith("! CLIP guesses on left: 26.0%")
    assert all(remedy in warning for remedy in ("no_clip", "templates", "weights"))
    few = {**PROBE, "images": 2, "test_images": 2, "classes": 2, "nearest_mean": 1.0}
    write(paths.probe("toy", "left"), few)
    assert "guesses" not in summary(capsys)
