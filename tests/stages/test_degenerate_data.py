"""Run the stages on degenerate data, from imported features to metrics; tests/method/ covers every variant."""

import json

import numpy as np
import pytest

from benchmarks.imported_project import FEATURES, STATISTICS, ImportedProject, rff
from pipeline.stage import main
from small_project import tree_digest

SMALL = {"classes": 4, "per_task": 2, "width": 32, "clip_width": 16, "rff": rff(60)}
DATA = {"seeds": [0], "test_fraction": 0.25}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return ImportedProject(tmp_path)


def test_accuracy_is_null_or_an_empty_cell_if_no_label_is_kept(project, capsys):
    options = {"variant": "calibrated", "options": {"threshold": 1.0}}
    project.write(source=48, target=48, method=options, data=DATA, **SMALL)
    for stage in (*FEATURES, *STATISTICS):
        assert main(stage) == 0, stage
    text = (project.folder / "results/toy/evaluations/a-b.json").read_text()
    figures = json.loads(text)
    assert np.isfinite([value for value in figures.values() if isinstance(value, float)]).all()
    assert figures["pseudo_labels_kept"] == 0
    assert figures["pseudo_label_accuracy"] is None
    assert "nan" not in text.lower()
    table = (project.folder / "results/toy/problems/a-b/tables/pseudo_labels.csv").read_text()
    assert table.splitlines() == ["task,accuracy,kept", "1,,0.0", "2,,0.0"]
    assert "Warning" not in capsys.readouterr().err


@pytest.mark.parametrize(("images", "per_task"), [(4, 2), (3, 1)])
def test_a_task_without_test_images_can_be_adapted_to_but_not_scored(project, refused, images, per_task):
    """The cases are one image per class, and a class without images."""
    names = {f"c000{c}": f"c000{c}" for c in range(4)}
    project.write(source=32, target=images, data=DATA | {"empty_class": "report"}, **SMALL)
    project.change(datasets={"toy": {"classes_per_task": per_task, "class_names": names}})
    for stage in (*FEATURES, *STATISTICS[:-1]):
        assert main(stage) == 0, stage
    before = tree_digest(project.folder / "cache")
    for stage in (STATISTICS[-1], ("compare", "a-b")):
        line = refused(main, *stage)
        assert f"task 1 of {4 // per_task} has no test image to score" in line
        assert "data.test_fraction" in line
    assert tree_digest(project.folder / "cache") == before
