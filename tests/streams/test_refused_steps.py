"""Test that a step refuses bad input with one line that names the key or file, and both values if two conflict."""

import pytest

from pipeline.stage import main
from stream_project import NAMES, change_step, run

SECOND = "camera-week2"
STATE, SOURCE = "cache/streams/camera-week1.zarr", "cache/source/left.zarr"
WEEK2 = "cache/embeddings/week2/vit.zarr"


def update(*keys, **values):
    """Return a function that updates an entry of params.yaml or suite.yaml."""

    def change(params):
        for key in keys:
            params = params[key]
        params.update(values)

    return change


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ["bee", "wasp"]}, "'wasp'"),
        ({"classes": ["bee", "bee"]}, "'bee' is listed twice"),
        ({"classes": []}, "classes"),
        ({"before": "streams/camera-week9"}, "camera-week9"),
        ({"before": "camera-week1"}, "streams/STREAM-STEP"),
        ({"before": f"streams/{SECOND}"}, "circle"),
        ({"domain": "week9"}, "week9"),
        ({"source": "right"}, "sources"),
    ],
)
def test_a_bad_entry_is_named(stepped, refused, changes, words):
    change_step(stepped, SECOND, **changes)
    line = refused(main, "step", SECOND)
    assert f"steps.{SECOND}" in line
    assert words in line


@pytest.mark.parametrize(
    ("change", "stages", "words"),
    [
        (update("method", options={"ridge": 0.7}), (), (STATE, "ridge = 0.3", "0.7")),
        (update("rff", D=60), ("source left",), (STATE, "rff.D = 50", "60")),
        (update("rff", sigma=2e-4), ("source left",), (STATE, "rff.sigma = 0.0001", "0.0002")),
        (update("domains", "week2", templates=["a sketch of {}"]), ("prompts week2",), (STATE, "a photo", "a sketch")),
        (update("models", "vit", precision="bfloat16"), ("embed week2 vit",), (WEEK2, SOURCE, "bfloat16")),
        (update("models", "vit", precision="bfloat16"), ("embed week2 vit", "embed left vit", "source left"),
         (WEEK2, STATE, "bfloat16")),
    ],
)  # fmt: skip
def test_a_state_made_with_other_settings_is_refused(stepped, refused, change, stages, words):
    params = stepped.read_params()
    change(params)
    stepped.write_params(params)
    run(stepped, *stages)
    line = refused(main, "step", SECOND)
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("path,class\ndata/week1/a9.png,bee\n", "line 2"),
        ("path,class\ndata/week1/a0.png,bea\n", "did you mean 'bee'"),
        ("path,class\ndata/week1/a0.png,bee\ndata/week1/a0.png,cat\n", "two classes"),
        ("image,label\n", "path,class"),
        ("path;class\ndata/week1/a0.png;bee\n", "semicolons"),
        (None, "no such file"),
    ],
)
def test_bad_corrections_are_named(weeks, refused, content, words):
    if content is not None:
        (weeks.folder / "fixed.csv").write_text(content)
    change_step(weeks, "camera-week1", corrections="fixed.csv")
    line = refused(main, "step", "camera-week1")
    assert "fixed.csv" in line
    assert words in line


WITHOUT_CAT = {"classes_per_task": 2, "class_names": {name: text for name, text in NAMES.items() if name != "cat"}}
NO_LABELS = {"left-week1": {"source": "left", "target": "week1"}}
FORGOTTEN = {"camera-week0": {"source": "left", "before": "source/left"}}


@pytest.mark.parametrize(
    ("changes", "stages", "failing_stage", "words"),
    [
        ({}, (), f"step {SECOND}", (STATE,)),  # the step before did not run
        ({"method": {"variant": "paper"}}, (), "step camera-week1", ("calibrated",)),  # its statistics do not add up
        ({"datasets": {"toy": WITHOUT_CAT}, "method": {"variant": "rejecting"}},  # rejection needs all classes
         ("manifest week1", "order week1", "tasks week1", "prompts week1"),
         "step camera-week1", ("steps.camera-week1", "'cat'", "week1", "class_names")),
        ({"past": FORGOTTEN}, (), "past camera-week0", ("dvc pull",)),
        ({"datasets": {"toy": WITHOUT_CAT | {"class_names": {}}}}, (), "manifest week1", ("toy.class_names",)),
        ({"problems": NO_LABELS}, (), "evaluate left-week1", ("problems.left-week1", "stream add")),
    ],
)  # fmt: skip
def test_a_stage_that_cannot_run_names_the_cause(weeks, refused, changes, stages, failing_stage, words):
    weeks.change_params(**changes)
    run(weeks, *stages)
    line = refused(main, *failing_stage.split())
    assert all(word in line for word in words)
