"""The figures of a problem, from scores worked out by hand."""

import csv

import numpy as np
import pytest

from pipeline.method.evaluation import Scores
from pipeline.report.problem_tables import headline, write_tables

NAN = np.nan


def scores(last):
    return Scores(
        accuracy=np.array([[1.0, NAN], [last, 0.5]]),
        references={"source": np.array([[0.5, NAN], [0.5, 0.25]])},
        ece={"klda": 0.1, "clip": 0.2, "fused": 0.05},
        per_class=np.array([last, 0.5]),
        predicted=np.array([0, 1, 1, 0]),
    )


SEEDS = [scores(0.5), scores(1.0)]
QUALITY = np.array([[[1.0, 1.0], [0.5, 0.5]], [[1.0, 1.0], [NAN, 0.0]]])


def read(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_headline():
    told = headline(SEEDS, QUALITY)
    assert told["A_T"] == pytest.approx(62.5)  # of 50 and 75
    assert told["A_T_sd"] == pytest.approx(12.5)
    assert told["average_incremental"] == pytest.approx((75 + 87.5) / 2)
    assert told["forgetting"] == pytest.approx(
        25
    )  # the first task fell from 100 to 50, and not at all
    assert told["source_only_A_T"] == pytest.approx(37.5)
    assert told["pseudo_label_accuracy"] == pytest.approx(
        83.33
    )  # a task with nothing kept has no accuracy
    assert told["pseudo_labels_kept"] == pytest.approx(62.5)
    assert told["ece"] == {"klda": 10.0, "clip": 20.0, "fused": 5.0}


def test_tables(tmp_path):
    truth = [np.array([0, 1, 0, 1])] * 2
    more = {"extra": (("a", "b"), [(1, "x")])}
    write_tables(tmp_path / "t", SEEDS, QUALITY, ["ant", "bee"], truth, more=more)
    assert read(tmp_path / "t" / "extra.csv") == [["a", "b"], ["1", "x"]]
    # the first task fell by 50 and by 0 points, and ended at 50 and at 100
    assert read(tmp_path / "t" / "forgetting.csv") == [
        ["task", "best", "final", "forgotten"],
        ["1", "100.0", "75.0", "25.0"],
    ]
    assert read(tmp_path / "t" / "tasks.csv") == [
        ["after_task", "adapted", "sd", "source_only"],
        ["1", "100.0", "0.0", "50.0"],
        ["2", "62.5", "12.5", "37.5"],
    ]
    assert read(tmp_path / "t" / "accuracy_matrix.csv")[1:] == [
        ["1", "1", "100.0"],
        ["2", "1", "75.0"],
        ["2", "2", "50.0"],
    ]
    assert read(tmp_path / "t" / "classes.csv")[1:] == [["ant", "75.0"], ["bee", "50.0"]]
    pairs = [["ant", "ant"], ["ant", "bee"], ["bee", "ant"], ["bee", "bee"]]
    assert read(tmp_path / "t" / "confusion.csv")[1:] == [p for p in pairs for _ in SEEDS]  # sorted
    assert read(tmp_path / "t" / "pseudo_labels.csv")[2] == ["2", "50.0", "25.0"]
