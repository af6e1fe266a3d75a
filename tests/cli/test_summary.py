"""`referee summary`: the table of compared methods where every problem has one, else the metrics of each problem."""

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


def compared(a_t, title):
    entry = {"title": title, "group": "referee", "source_samples": False}
    return {**entry, "A_T": a_t, "A_T_sd": 0.4, "A_T_per_seed": [a_t - 0.4, a_t + 0.4]}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def project(params_alone):
    other = {"source": "right", "target": "left"}
    params_alone.change_params(sources={"right": {}}, problems={"right-left": other})
    params = params_alone.read_params()
    for domain in params["domains"]:
        write(paths.probe("toy", domain), PROBE)
    for problem in params["problems"]:
        write(paths.evaluation("toy", problem), METRICS)
        methods = {"source_only": compared(70.0, "source_only"), "calibrated": compared(93.3, "calibrated")}
        write(paths.comparison("toy", problem), {"made_with": MADE_WITH, "test_images": 120, "methods": methods})
    return params_alone


def summary(capsys):
    assert main(["summary"]) == 0
    return capsys.readouterr().out


def test_compared_methods_side_by_side_and_the_report_last(project, capsys):
    text = summary(capsys)
    assert text.index("features of suite toy") < text.index("Final accuracy, toy")
    (line,) = [line for line in text.splitlines() if line.startswith("right-left")]
    assert " ".join(line.split()) == "right-left 120 70.0±0.4 93.3±0.4* +23.3"
    assert "pseudo-labels" not in text
    assert "report" not in text
    digest = figures_digest(paths.figures("toy", ["left-right", "right-left"]))
    paths.report("toy").write_text(f'<meta name="figures" content="{digest}">')
    assert summary(capsys).splitlines()[-1].startswith(f"report: {paths.report('toy')} (open it")
    write(paths.evaluation("toy", "left-right"), METRICS | {"A_T": 90.0})  # of another commit
    assert "dvc repro --force report" in summary(capsys).splitlines()[-1]


@pytest.mark.parametrize(
    "changed",
    [
        {"method": {"variant": "paper", "options": {}}},
        {"method": {"variant": "calibrated", "options": {"ridge": 0.5}}},
        {"refinement": {"steps": 2, "step_size": 0.01, "radius": 0.03, "mutual_attention": False}},
    ],
)
def test_a_method_that_no_comparison_runs_has_a_table_of_its_own(project, capsys, changed):
    project.change_params(**changed)
    text = summary(capsys)
    assert text.index("Final accuracy, toy") < text.index("final accuracy A_T, variant ")
    assert ("ridge 0.5" in text) == ("ridge" in str(changed))
    assert "91.0±0.5" in text


def test_results_of_evaluate_alone_and_none_at_all(project, capsys, refused):
    paths.comparison("toy", "right-left").unlink()  # a problem that was not compared
    text = summary(capsys)
    assert "91.0±0.5" in text
    assert "93.3" not in text
    shutil.rmtree(paths.probe("toy", "left").parent)
    paths.comparison("toy", "left-right").unlink()
    assert "91.0±0.5" in summary(capsys)
    for problem in ("left-right", "right-left"):
        paths.evaluation("toy", problem).unlink()
    assert "results/toy: no results yet; run dvc repro" in refused(main, "summary")


def test_results_that_are_damaged_or_missing(project, refused):
    damaged, gone = paths.comparison("toy", "right-left"), paths.probe("toy", "left")
    damaged.write_text("{")
    assert f"{damaged}: Invalid JSON" in refused(main, "summary")
    gone.unlink()
    assert f"{gone}: no such file; run dvc repro" in refused(main, "summary")


def test_figures_of_other_parameters_say_which(project, capsys):
    assert "not of today" not in summary(capsys)
    project.change_params(rff={"D": 1000})
    text = summary(capsys)
    assert text.count("left-right, right-left made with rff.D=50; run dvc repro") == 2
    fresh = {**METRICS, "made_with": {**MADE_WITH, "rff.D": 1000}, "A_T": 92.0}
    write(paths.evaluation("toy", "left-right"), fresh)
    text = summary(capsys)
    assert "! not of today's params.yaml: right-left made with rff.D=50" in text


def test_a_model_that_guesses_is_named_with_what_to_do(project, capsys):
    assert "guess" not in summary(capsys)
    write(paths.probe("toy", "left"), {**PROBE, "zero_shot": 0.26})
    (warning,) = [line for line in summary(capsys).splitlines() if "guesses" in line]
    assert warning.startswith("! CLIP guesses on left: 26.0%")
    assert all(remedy in warning for remedy in ("no_clip", "templates", "weights"))
    few = {**PROBE, "images": 2, "test_images": 2, "classes": 2, "nearest_mean": 1.0}
    write(paths.probe("toy", "left"), few)
    assert "guesses" not in summary(capsys)
