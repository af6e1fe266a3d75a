"""What a step refuses: one line that names the key or file, and both sides where two things do not fit."""

import pytest

from pipeline.stage import main
from stream_project import NAMES, change_step, run

SECOND = "camera-week2"
STATE, SOURCE = "cache/streams/camera-week1.zarr", "cache/source/left.zarr"
WEEK2 = "cache/embeddings/week2/vit.zarr"


def update(*keys, **values):
    """Return what updates an entry of params.yaml or suite.yaml."""

    def change(params):
        for key in keys:
            params = params[key]
        params.update(values)

    return change


@pytest.mark.parametrize(
    ("changes", "named"),
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
def test_a_bad_entry(stepped, refused, changes, named):
    change_step(stepped, SECOND, **changes)
    line = refused(main, "step", SECOND)
    assert f"steps.{SECOND}" in line
    assert named in line


@pytest.mark.parametrize(
    ("change", "again", "named"),
    [
        (update("method", options={"ridge": 0.7}), (), (STATE, "ridge = 0.3", "0.7")),
        (update("rff", D=60), ("source left",), (STATE, "rff.D = 50", "60")),
        (update("rff", sigma=2e-4), ("source left",), (STATE, "rff.sigma = 0.0001", "0.0002")),
        (update("domains", "week2", templates=["a sketch of {}"]), ("prompts week2",), (STATE, "a photo", "a sketch")),
        (update("models", "vit", precision="bfloat16"), ("embed week2 vit",), (WEEK2, SOURCE, "bfloat16")),
    ],
)  # fmt: skip
def test_a_state_that_rests_on_something_else(stepped, refused, change, again, named):
    params = stepped.read_params()
    change(params)
    stepped.write_params(params)
    run(stepped, *again)
    line = refused(main, "step", SECOND)
    assert all(side in line for side in named)


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
def test_bad_corrections(weeks, refused, content, named):
    if content is not None:
        (weeks.folder / "fixed.csv").write_text(content)
    change_step(weeks, "camera-week1", corrections="fixed.csv")
    line = refused(main, "step", "camera-week1")
    assert "fixed.csv" in line
    assert named in line


LESS = {"classes_per_task": 2, "class_names": {name: text for name, text in NAMES.items() if name != "cat"}}
NO_LABELS = {"left-week1": {"source": "left", "target": "week1"}}
FORGOTTEN = {"camera-week0": {"source": "left", "before": "source/left"}}


@pytest.mark.parametrize(
    ("changes", "again", "stage", "named"),
    [
        ({}, (), f"step {SECOND}", (STATE,)),  # the step before did not run
        ({"method": {"variant": "paper"}}, (), "step camera-week1", ("calibrated",)),  # its statistics do not add
        ({"datasets": {"toy": LESS}, "method": {"variant": "rejecting"}},  # images are rejected by all classes
         ("manifest week1", "order week1", "tasks week1", "prompts week1"),
         "step camera-week1", ("steps.camera-week1", "'cat'", "week1", "class_names")),
        ({"past": FORGOTTEN}, (), "past camera-week0", ("dvc pull",)),
        ({"datasets": {"toy": LESS | {"class_names": {}}}}, (), "manifest week1", ("toy.class_names",)),
        ({"problems": NO_LABELS}, (), "evaluate left-week1", ("problems.left-week1", "stream add")),
    ],
)  # fmt: skip
def test_what_cannot_run(weeks, refused, changes, again, stage, named):
    weeks.change_params(**changes)
    run(weeks, *again)
    line = refused(main, *stage.split())
    assert all(word in line for word in named)
