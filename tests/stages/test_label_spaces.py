"""Run the stages on partial, open, universal and hidden problems, and on bad label spaces."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open

from benchmarks.imported_project import FEATURES, STATISTICS, ImportedProject, rff
from pipeline import paths
from pipeline.cli.main import main as cli
from pipeline.cli.predict import predicted_images, to_csv
from pipeline.config.params import load_params
from pipeline.config.suite import ProblemEntry
from pipeline.problem.adapted_model import open_adapted_model
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import Project
from pipeline.report.problem_figures import MEASURES
from pipeline.stage import main, open_project
from pipeline.store.basis_file import read_bases
from pipeline.store.source_store import read_class_means

NAMES = [f"c{c:04d}" for c in range(6)]
SPACES = {
    "open": {"target_private": NAMES[4:]},
    "partial": {"source_private": NAMES[4:]},
    "universal": {"source_private": NAMES[4:5], "target_private": NAMES[5:]},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = ImportedProject(tmp_path)
    project.write(source=120, target=120, classes=6, per_task=2, width=32, clip_width=16)
    return project


def run_problem(project, capsys, *, reject="joint", seeds=(0,), **problem):
    """Run all stages of a problem and return its figures."""
    project.change(
        datasets={"toy": {"classes_per_task": 2, "class_names": {}, "label_spaces": SPACES}},
        problems={"a-b": {"source": "a", "target": "b", **problem}},
        swept={},
        rff=rff(60, 1e-2),
        data={"seeds": seeds, "test_fraction": 0.25},
        method={"variant": "calibrated", "options": {"reject": reject}},
    )
    for stage in (*FEATURES, *STATISTICS):
        assert main(stage) == 0, capsys.readouterr().err
    return json.loads((project.folder / "results/toy/evaluations/a-b.json").read_text())


@pytest.mark.parametrize(
    ("space", "classes", "reject"),
    [("open", "task", "joint"), ("partial", "seen", "none"), ("universal", "seen", "joint")],
)
def test_a_label_space_has_figures_and_unknown_images_are_rejected(project, capsys, space, classes, reject):
    figures = run_problem(project, capsys, label_space=space, classes=classes, reject=reject)["label_space"]
    assert figures["shared"] > 50
    assert len(figures["per_task"]["shared"]) == 2
    assert (figures["unknown"] is None) == (space == "partial")
    task = open_project(load_params()).problem("a-b").target.task(0, 0, ())
    assert len(task.classes) == {"open": 2, "partial": 6, "universal": 5}[space]  # all source classes if hidden
    if space != "partial":
        assert figures["auroc"] > 70
        target, _, rows, prediction = adapted_predictions()
        private = target.labels[rows] == -1
        assert prediction.rejected[private].mean() > prediction.rejected[~private].mean() + 0.2


def adapted_predictions():
    """Return the target, the adapted model, the row numbers of the target's images, and their prediction."""
    params = load_params()
    project = open_project(params)
    problem, target = project.problem("a-b"), project.labelled_target("a-b")
    options = method_options(params.method.variant, params.method.options)
    model = open_adapted_model(problem, options, params.rff.model_dump())
    rows = np.flatnonzero(target.tasks.task >= 0)
    return target, model, rows, model.predict(target.views_at(rows, model.views), np.asarray(target.clip_rows[rows]))


def test_private_classes_of_one_domain_are_left_out_of_the_other(project, capsys):
    run_problem(project, capsys, label_space="universal")
    assert list(read_class_means(project.folder / "cache/source/a.zarr", 0)) == NAMES
    model = project.folder / "cache/source/a.zarr/label_spaces/universal.zarr"
    assert sorted(read_class_means(model, 0)) == NAMES[:5]
    universal = Project("vit", "clip", {"a-b": ProblemEntry(source="a", target="b", label_space="universal")})
    source = universal.source_domain("a", label_space="universal")
    assert set(source.labels[source.train_index(0)]) == set(range(5))
    target = universal.labelled_target("a-b")
    images = np.concatenate([target.train_index(0, task) for task in range(2)])
    assert len(images) == 75  # five of six classes, three of four images
    private = source.class_names.index(NAMES[4])
    assert set(target.labels[images]) == {-1, *range(5)} - {private}
    assert set(target.labels[target.test_index(0)]) == set(range(5)) - {private}
    assert target.prompts.classes == source.class_names


def test_no_image_is_unknown_without_rejection(project, capsys):
    figures = run_problem(project, capsys, reject="none", label_space="open")
    assert figures["label_space"]["unknown"] == 0
    assert "rejection_histogram" not in {p.name for p in (project.folder / "cache/target/a-b.zarr").iterdir()}


def test_an_unknown_class_in_a_label_space_is_refused_by_tasks(project, refused):
    project.change(
        datasets={
            "toy": {"classes_per_task": 2, "class_names": {}, "label_spaces": {"mine": {"target_private": ["mug"]}}}
        },
        problems={"a-b": {"source": "a", "target": "b", "label_space": "mine"}},
        swept={},
    )
    assert main(["manifest", "a"]) == main(["order", "a"]) == 0
    line = refused(main, "tasks", "a")
    assert "label_spaces.mine" in line
    assert "'mug'" in line


def test_measures_and_baselines_appear_in_metrics_tables_and_report(project, capsys):
    run_problem(project, capsys, seeds=(3, 7), label_space="open")  # no seed equals a position
    methods = ["calibrated", "rejecting", "mcm", "nearest-mean-distance"]
    project.change(compare={"methods": methods})
    for stage in (["metrics"], ["compare", "a-b"], ["tables"], ["report"]):
        assert main(stage) == 0, capsys.readouterr().err
    problem = open_project(load_params()).labelled_problem("a-b")
    assert problem.seed(1, read_bases(paths.bases("a")).basis(1)).number == 7
    results = project.folder / "results/toy"
    evaluation = json.loads((results / "evaluations/a-b.json").read_text())["label_space"]
    metrics = json.loads((results / "metrics.json").read_text())["unknown"]["a-b"]
    assert [metrics[m] for m in MEASURES] == [evaluation[m] for m in MEASURES]
    assert metrics["task 1"]["h_score"] == evaluation["per_task"]["h_score"][0]
    compared = json.loads((results / "problems/a-b/comparison.json").read_text())["methods"]
    assert list(compared) == methods
    assert "label_space" not in compared["calibrated"]
    assert compared["rejecting"]["label_space"] == evaluation  # `compare` runs the same method as the stages
    (lines,) = [p.read_text().splitlines() for p in (results / "tables").glob("unknown*.csv")]
    assert any("rejecting" in line and f"{evaluation['h_score']:.2f}" in line for line in lines)
    assert "mcm" not in (results / "tables/comparison.csv").read_text()
    page = (results / "report.html").read_text()
    for text in ("a → b, open", "H-score", "nearest source mean, distance"):
        assert text in page


def test_methods_that_answer_unknown_are_left_out_on_the_closed_set(project, capsys):
    run_problem(project, capsys, reject="none")
    project.change(compare={"methods": ["calibrated", "rejecting", "mcm"]})
    for stage in (["metrics"], ["compare", "a-b"]):
        assert main(stage) == 0, capsys.readouterr().err
    results = project.folder / "results/toy"
    compared = json.loads((results / "problems/a-b/comparison.json").read_text())["methods"]
    assert list(compared) == ["calibrated"]
    # no model is fitted for label spaces that no problem names
    assert not (project.folder / "cache/source/a.zarr/label_spaces").exists()
    assert "unknown" not in json.loads((results / "metrics.json").read_text())


def test_predict_and_an_exported_classifier_reject_the_same_images(project, capsys):
    run_problem(project, capsys, label_space="open")
    target, model, rows, prediction = adapted_predictions()
    answers = predicted_images([str(row) for row in rows], prediction, model.classes_seen, 2)
    lines = [line.split(",") for line in to_csv(answers).splitlines()[1:]]
    first = [line for line in lines if line[1] == "1"]
    assert [line[2] == "unknown" for line in first] == prediction.rejected.tolist()
    assert 0 < prediction.rejected.mean() < 1
    assert cli(["export", "--problem", "a-b", "--output", "c.safetensors"]) == 0
    with safe_open("c.safetensors", "pt") as file:
        example = json.loads(file.metadata()["referee"])["example"]
    names = {}
    exec(example.replace("classifier.safetensors", "c.safetensors"), names)
    views = [torch.tensor(x) for x in target.views_at(rows, model.views).values()]
    confidence = names["unknown"](views, torch.tensor(target.clip_rows[rows])).numpy()
    np.testing.assert_allclose(confidence, prediction.unknown, atol=1e-6)
    fused = names["classify"](views, torch.tensor(target.clip_rows[rows])).numpy()
    np.testing.assert_allclose(fused, prediction.fused, atol=1e-4)
