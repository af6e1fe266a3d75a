"""Steps of a stream: what they write, what they continue, what they refuse."""

import json
import shutil
from contextlib import chdir

import pytest

from pipeline import paths
from shards import files_in
from stream_project import answers, change_step, refusal, run, state


def test_a_stream_of_flat_photos_ends_with_labels_figures_and_a_state(stepped, capsys):
    run(stepped, "step camera-week2")
    message = capsys.readouterr().out.splitlines()[-1]
    assert "12 images" in message
    assert "since camera-week1" in message
    rows = answers(stepped, "camera-week2")
    confidence = [float(row["confidence"]) for row in rows.values()]
    assert confidence == sorted(confidence)
    assert {row["class"] for row in rows.values()} <= {"bee", "dog"}
    assert set(rows) == {f"data/week2/{letter}{i}.png" for letter in "abcd" for i in range(3)}
    figures = json.loads(stepped.results("streams", "camera-week2.json").read_text())
    assert figures["steps_before"] == ["camera-week1"]
    assert sum(figures["shares"].values()) == pytest.approx(1, abs=1e-5)
    assert 0 <= figures["drift"]["shares"] <= 1
    assert 0 <= figures["estimated_accuracy"] <= 1
    after = state(stepped, "camera-week2")
    assert after.steps_before == ("camera-week1",)
    assert after.statistics.rows.count.sum() == pytest.approx(2 * 12 * 3)  # two weeks, three views


def test_the_past_may_be_gone(stepped):
    folders = stepped.folder / "cache/streams", stepped.results("streams")
    run(stepped, "step camera-week2")
    whole = [files_in(folder) for folder in folders]
    for gone in (
        *("data/week1", "data/left", "cache/embeddings/week1", "cache/manifests/week1", "cache/prompts/week1.zarr"),
        *("cache/streams/camera-week2.zarr", "cache/embeddings/left"),
    ):
        shutil.rmtree(stepped.folder / gone)
    run(stepped, "step camera-week2")
    assert [files_in(folder) for folder in folders] == whole


def test_classes_are_numbered_as_the_stream_meets_them(weeks):
    change_step(weeks, "camera-week1", classes=["dog", "cat"])
    change_step(weeks, "camera-week2", classes=["ant", "dog"])
    run(weeks, "step camera-week1", "step camera-week2")
    after = state(weeks, "camera-week2")
    assert after.classes == ("cat", "dog", "ant")
    assert after.classifier.W.shape == (50, 3)


def test_corrections_enter_as_certain_rows(stepped):
    plain = state(stepped, "camera-week1")
    doubtful = list(answers(stepped, "camera-week1"))[:2]
    (stepped.folder / "fixed.csv").write_text(
        "path,class,note\n" + "".join(f"{path},bee,looked at\n" for path in doubtful)
    )
    change_step(stepped, "camera-week1", corrections="fixed.csv", correction_weight=4.0)
    run(stepped, "step camera-week1")
    corrected = [row for row in answers(stepped, "camera-week1").values() if row["corrected"]]
    assert {row["path"] for row in corrected} == set(doubtful)
    assert all(row["class"] == "bee" and float(row["confidence"]) == 1 for row in corrected)
    assert all(float(row["weight"]) == 4 for row in corrected)
    after = state(stepped, "camera-week1")
    bee = after.classes.index("bee")
    assert after.statistics.rows.weight[bee] >= 2 * 4 * 3  # three views each
    assert after.statistics.rows.count.sum() == pytest.approx(plain.statistics.rows.count.sum())


def test_all_images_may_be_corrected(stepped):
    lines = [f"{path},{row['class']}\n" for path, row in answers(stepped, "camera-week1").items()]
    (stepped.folder / "fixed.csv").write_text("path,class\n" + "".join(lines))
    change_step(stepped, "camera-week1", corrections="fixed.csv")
    run(stepped, "step camera-week1")
    assert state(stepped, "camera-week1").statistics.rows.weight.sum() == pytest.approx(5 * 12 * 3)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("path,class\ndata/week1/a9.png,bee\n", "line 2"),
        ("path,class\ndata/week1/a0.png,bea\n", "did you mean 'bee'"),
        ("path,class\ndata/week1/a0.png,bee\ndata/week1/a0.png,cat\n", "two classes"),
        ("image,label\n", "path,class"),
        ("path;class\ndata/week1/a0.png;bee\n", "semicolons"),
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


@pytest.mark.parametrize(
    ("changes", "again", "named"),
    [
        ({"method": {"options": {"ridge": 0.7}}}, (), ("ridge = 0.3", "0.7")),
        ({"rff": {"D": 60}}, ("source left",), ("rff.D = 50", "60")),
        ({"rff": {"sigma": 2e-4}}, ("source left",), ("rff.sigma = 0.0001", "0.0002")),
    ],
)
def test_a_state_that_rests_on_something_else_is_refused_naming_both_sides(stepped, capsys, changes, again, named):
    stepped.change_params(**changes)
    run(stepped, *again)
    line = refusal(stepped, capsys, "step camera-week2")
    assert "camera-week1.zarr" in line
    assert all(side in line for side in named)


def test_other_prompts_than_those_of_the_step_before_are_refused(stepped, capsys):
    week2 = stepped.read_params()["domains"]["week2"]
    stepped.change_params(domains={"week2": week2 | {"templates": ["a drawing of a {}"]}})
    run(stepped, "prompts week2")
    line = refusal(stepped, capsys, "step camera-week2")
    assert "a photo of" in line
    assert "a drawing of" in line


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
def test_a_bad_step_is_one_line_that_names_it(stepped, capsys, changes, named):
    change_step(stepped, "camera-week2", **changes)
    line = refusal(stepped, capsys, "step camera-week2")
    assert "steps.camera-week2" in line
    assert named in line


@pytest.mark.parametrize(
    ("changes", "stage", "named"),
    [
        ({}, "step camera-week2", "cache/streams/camera-week1.zarr"),  # the step before did not run
        ({"method": {"variant": "paper"}}, "step camera-week1", "calibrated"),  # its statistics do not add
        ({"past": {"camera-week0": {"source": "left", "before": "source/left"}}}, "past camera-week0", "dvc pull"),
        ({"datasets": {"toy": {"classes_per_task": 2, "class_names": {}}}}, "manifest week1", "toy.class_names"),
    ],
)
def test_what_cannot_run_is_one_line(weeks, capsys, changes, stage, named):
    weeks.change_params(**changes)
    assert named in refusal(weeks, capsys, stage)


def test_an_unlabelled_domain_has_no_labels_and_says_so(weeks, capsys):
    with chdir(weeks.folder):
        manifest = paths.manifest("week1")
        assert (manifest / "labels/labels.csv").read_text() == "path,class\n"
        assert len((manifest / "tasks/tasks.csv").read_text().splitlines()) == 1
    run(weeks, "probe week1")
    assert "no labels" in capsys.readouterr().out.splitlines()[-1]
    weeks.change_params(problems={"left-week1": {"source": "left", "target": "week1"}})
    line = refusal(weeks, capsys, "evaluate left-week1")
    assert "problems.left-week1" in line
    assert "stream add" in line
