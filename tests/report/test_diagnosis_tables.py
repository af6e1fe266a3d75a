"""The tables that say why, from predictions worked out by hand."""

import numpy as np

from pipeline.method.evaluation import Said, Scores
from pipeline.report.diagnosis_tables import (
    MISTAKES,
    SHOWN,
    SeedPredictions,
    confident_mistakes,
    map_table,
    reliability_table,
    shown_images,
    shown_table,
    weights_table,
)

NAMES = ["ant", "bee"]


def said(labels, confidence):
    return Said(np.array(labels), np.array(confidence, dtype=float))


def of_seed(seed, rows, truth, labels, confidence):
    one = said(labels, confidence)
    return SeedPredictions(
        seed, np.array(rows), np.array(truth), dict.fromkeys(("klda", "clip", "fused"), one)
    )


def scores(labels, confidence):
    one = said(labels, confidence)
    branches = dict.fromkeys(("klda", "clip", "fused"), one)
    return Scores(np.ones((1, 1)), {}, {}, np.ones(2), np.array(labels), branches)


def test_reliability_pools_the_seeds_and_leaves_empty_bins_out():
    header, rows = reliability_table(
        [scores([0, 1], [0.9, 0.99]), scores([0], [0.91])], [np.array([0, 0]), np.array([0])]
    )
    fused = [dict(zip(header, row, strict=True)) for row in rows if row[0] == "fused"]
    assert fused == [
        {
            "branch": "fused",
            "from": 86.67,
            "to": 93.33,
            "images": 2,
            "confidence": 90.5,
            "accuracy": 100.0,
        },
        {
            "branch": "fused",
            "from": 93.33,
            "to": 100.0,
            "images": 1,
            "confidence": 99.0,
            "accuracy": 0.0,
        },
    ]


def test_weights():
    _, rows = weights_table(np.array([0.5, 0.5, 1.0]), np.array([True, False, True]))
    assert [list(row) for row in rows] == [
        ["0.5", "0.5", "0.5", 2, 50.0],
        ["1", "1", "1", 1, 100.0],
    ]


def test_the_most_confident_mistakes_of_any_seed_each_image_once():
    first = of_seed(0, [3, 5, 8], [0, 0, 1], [1, 0, 0], [0.6, 0.99, 0.7])
    second = of_seed(1, [8, 9], [1, 1], [0, 0], [0.9, 0.65])
    found = [(one.seed, int(one.rows[i])) for one, i in confident_mistakes([first, second])]
    assert found == [(1, 8), (1, 9), (0, 3)]
    many = of_seed(0, range(50), [0] * 50, [1] * 50, np.linspace(0.5, 1, 50))
    assert len(confident_mistakes([many])) == MISTAKES


def test_shown_images_have_their_path_and_what_each_branch_says():
    one = of_seed(4, [1, 0], [0, 1], [1, 1], [0.75, 0.9])
    header, rows = shown_table(
        shown_images([one]), {0: ("b/0.png", "00"), 1: ("a/1.png", "11")}, NAMES
    )
    assert header == SHOWN
    told = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(r["role"], r["path"], r["actual"]) for r in told] == [
        ("mistake", "a/1.png", "ant"),
        ("example", "a/1.png", "ant"),
        ("example", "b/0.png", "bee"),
    ]
    assert told[0]["seed"] == 4
    assert (told[0]["fused_says"], told[0]["fused_confidence"]) == ("bee", 75.0)


def test_the_map_says_what_was_predicted_of_test_images_only():
    x = np.array([[0.0, 0, 0], [4, 0, 0], [0, 1, 0], [4, 1, 0]])
    _, rows = map_table(x, np.array([0, 1, 0, 1]), NAMES, [None, 1, 1, None])
    assert [row[2:] for row in rows] == [
        ("ant", "train", ""),
        ("bee", "test", "bee"),
        ("ant", "test", "bee"),
        ("bee", "train", ""),
    ]
    assert [row[:2] for row in rows] == [(-1.0, -0.25), (1.0, -0.25), (-1.0, 0.25), (1.0, 0.25)]
