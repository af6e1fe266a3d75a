"""Steps of a stream: what they write, what they continue, what they refuse."""

import csv
import json
import shutil
from contextlib import chdir

import pytest

from pipeline import paths
from pipeline.stage import main
from shards import files_in
from stream_project import run, state


def refusal(project, capsys, stage):
    """Return the one line of a stage that refuses."""
    with chdir(project.folder):
        capsys.readouterr()
        assert main(stage.split()) == 2
        lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def table(project, step):
    with project.results("streams", f"{step}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def change_step(project, step, **changes):
    project.change_params(steps={step: project.read_params()["steps"][step] | changes})


def test_a_stream_of_flat_photos_ends_with_labels_figures_and_a_state(weeks, capsys):
    run(weeks, "step camera-week1", "step camera-week2")
    message = capsys.readouterr().out.splitlines()[-1]
    assert "12 images" in message
    assert "since camera-week1" in message
    rows = table(weeks, "camera-week2")
    confidence = [float(row["confidence"]) for row in rows]
    assert confidence == sorted(confidence)
    assert {row["class"] for row in rows} <= {"bee", "dog"}
    assert sorted(row["path"] for row in rows) == sorted(
        f"data/week2/{name[0]}{i}.png" for name in ("ant", "bee", "cat", "dog") for i in range(3)
    )
    figures = json.loads(weeks.results("streams", "camera-week2.json").read_text())
    assert figures["steps_before"] == ["camera-week1"]
    assert sum(figures["shares"].values()) == pytest.approx(1, abs=1e-5)
    assert 0 <= figures["drift"]["shares"] <= 1
    assert 0 <= figures["estimated_accuracy"] <= 1
    after = state(weeks, "camera-week2")
    assert after.steps_before == ("camera-week1",)
    assert after.statistics.rows.count.sum() == pytest.approx(2 * 12 * 3)  # two weeks, three views


def test_the_past_may_be_gone(weeks):
    run(weeks, "step camera-week1", "step camera-week2")
    results = weeks.results("streams")
    whole = files_in(weeks.folder / "cache/streams/camera-week2.zarr")
    texts = [(results / f"camera-week2.{suffix}").read_bytes() for suffix in ("csv", "json")]
    for gone in ("data/week1", "data/left", "cache/embeddings/week1", "cache/manifests/week1"):
        shutil.rmtree(weeks.folder / gone)
    for gone in ("cache/prompts/week1.zarr", "cache/streams/camera-week2.zarr", "cache/embeddings/left"):
        shutil.rmtree(weeks.folder / gone)
    run(weeks, "step camera-week2")
    assert files_in(weeks.folder / "cache/streams/camera-week2.zarr") == whole
    assert [(results / f"camera-week2.{s}").read_bytes() for s in ("csv", "json")] == texts


def test_classes_are_numbered_as_the_stream_meets_them(weeks):
    change_step(weeks, "camera-week1", classes=["dog", "cat"])
    change_step(weeks, "camera-week2", classes=["ant", "dog"])
    run(weeks, "step camera-week1", "step camera-week2")
    after = state(weeks, "camera-week2")
    assert after.classes == ("cat", "dog", "ant")
    assert after.classifier.W.shape == (50, 3)


def test_corrections_enter_as_certain_rows(weeks):
    run(weeks, "step camera-week1")
    plain = state(weeks, "camera-week1")
    doubtful = [row["path"] for row in table(weeks, "camera-week1")[:2]]
    (weeks.folder / "fixed.csv").write_text(
        "path,class,note\n" + "".join(f"{path},bee,looked at\n" for path in doubtful)
    )
    change_step(weeks, "camera-week1", corrections="fixed.csv", correction_weight=4.0)
    run(weeks, "step camera-week1")
    corrected = [row for row in table(weeks, "camera-week1") if row["corrected"]]
    assert {row["path"] for row in corrected} == set(doubtful)
    assert all(row["class"] == "bee" and float(row["confidence"]) == 1 for row in corrected)
    assert all(float(row["weight"]) == 4 for row in corrected)
    after = state(weeks, "camera-week1")
    bee = after.classes.index("bee")
    assert after.statistics.rows.weight[bee] >= 2 * 4 * 3  # three views each
    assert after.statistics.rows.count.sum() == pytest.approx(plain.statistics.rows.count.sum())


def test_all_images_may_be_corrected(weeks):
    run(weeks, "step camera-week1")
    lines = [f"{row['path']},{row['class']}\n" for row in table(weeks, "camera-week1")]
    (weeks.folder / "fixed.csv").write_text("path,class\n" + "".join(lines))
    change_step(weeks, "camera-week1", corrections="fixed.csv")
    run(weeks, "step camera-week1")
    assert state(weeks, "camera-week1").statistics.rows.weight.sum() == pytest.approx(5 * 12 * 3)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("path,class\ndata/week1/a9.png,bee\n", "line 2"),
        ("path,class\ndata/week1/a0.png,bea\n", "did you mean 'bee'"),
        ("path,class\ndata/week1/a0.png,bee\ndata/week1/a0.png,cat\n", "two classes"),
        ("image,label\n", "path,class"),
        (None, "no such file"),
    ],
)
def test_bad_corrections_are_one_line(weeks, capsys, content, named):
    if content is not None:
        (weeks.folder / "fixed.csv").write_text(content)
    change_step(weeks, "camera-week1", corrections="fixed.csv")
    line = refusal(weeks, capsys, "step camera-week1")
    assert "fixed.csv" in line
    assert named in line


def test_a_state_that_rests_on_something_else_is_refused_naming_both_sides(weeks, capsys):
    run(weeks, "step camera-week1")
    weeks.change_params(method={"options": {"ridge": 0.7}})
    line = refusal(weeks, capsys, "step camera-week2")
    assert "camera-week1.zarr" in line
    assert "ridge" in line
    assert "0.3" in line
    assert "0.7" in line
    weeks.change_params(method={"options": {}}, rff={"D": 60})
    run(weeks, "basis left", "source left")
    line = refusal(weeks, capsys, "step camera-week2")
    assert "rff.D = 50" in line
    assert "60" in line
    weeks.change_params(rff={"D": 50, "sigma": 2e-4})
    run(weeks, "basis left", "source left")
    line = refusal(weeks, capsys, "step camera-week2")
    assert "rff.sigma = 0.0001" in line
    assert "0.0002" in line


def test_other_prompts_than_those_of_the_step_before_are_refused(weeks, capsys):
    run(weeks, "step camera-week1")
    week2 = weeks.read_params()["domains"]["week2"]
    weeks.change_params(domains={"week2": week2 | {"templates": ["a drawing of a {}"]}})
    run(weeks, "prompts week2")
    line = refusal(weeks, capsys, "step camera-week2")
    assert "a photo of" in line
    assert "a drawing of" in line


def test_a_missing_step_before_is_one_line(weeks, capsys):
    line = refusal(weeks, capsys, "step camera-week2")
    assert "cache/streams/camera-week1.zarr" in line
    assert "dvc" in line


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"classes": ["bee", "wasp"]}, "'wasp'"),
        ({"classes": ["bee", "bee"]}, "'bee' is listed twice"),
        ({"classes": []}, "classes"),
        ({"before": "streams/camera-week9"}, "camera-week9"),
        ({"before": "camera-week1"}, "streams/STREAM-STEP"),
        ({"before": "streams/camera-week2"}, "circle"),
        ({"domain": "week9"}, "week9"),
        ({"source": "right"}, "sources"),
    ],
)
def test_a_bad_step_is_one_line_that_names_it(weeks, capsys, changes, named):
    run(weeks, "step camera-week1")
    change_step(weeks, "camera-week2", **changes)
    line = refusal(weeks, capsys, "step camera-week2")
    assert "steps.camera-week2" in line
    assert named in line


def test_statistics_that_do_not_add_are_refused(weeks, capsys):
    weeks.change_params(method={"variant": "paper"})
    assert "calibrated" in refusal(weeks, capsys, "step camera-week1")


def test_a_past_step_is_never_made_again(weeks, capsys):
    weeks.change_params(past={"camera-week0": {"source": "left", "before": "source/left"}})
    assert "dvc pull" in refusal(weeks, capsys, "past camera-week0")


def test_an_unlabelled_domain_has_no_labels_and_says_so(weeks, capsys):
    with chdir(weeks.folder):
        manifest = paths.manifest("week1")
        assert (manifest / "labels.csv").read_text() == "path,class\n"
        assert len((manifest / "tasks.csv").read_text().splitlines()) == 1
    run(weeks, "probe week1")
    assert "no labels" in capsys.readouterr().out.splitlines()[-1]
    weeks.change_params(problems={"left-week1": {"source": "left", "target": "week1"}})
    line = refusal(weeks, capsys, "evaluate left-week1")
    assert "problems.left-week1" in line
    assert "stream add" in line


def test_an_empty_folder_is_one_line(weeks, capsys):
    shutil.rmtree(weeks.folder / "data/week1")
    (weeks.folder / "data/week1").mkdir()
    (weeks.folder / "data/week1/a.svg").write_text("")
    line = refusal(weeks, capsys, "manifest week1")
    assert "data/week1" in line
    assert ".svg" in line


def test_an_unlabelled_domain_needs_named_classes(weeks, capsys):
    weeks.change_params(datasets={"toy": {"classes_per_task": 2, "class_names": {}}})
    assert "datasets.toy.class_names" in refusal(weeks, capsys, "manifest week1")
