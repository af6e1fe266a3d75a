"""Rejection, the classes that are there, and the measures, against naive oracles."""

import numpy as np
import pytest

from pipeline.method.label_space_measures import label_space_scores
from pipeline.method.presence import present_classes
from pipeline.method.rejection import (
    EDGES,
    RejectionState,
    empty_state,
    otsu_threshold,
    reject,
    unknownness,
)
from pipeline.method.rows import UnlabelledRows
from tests.reference import rejection as oracle


@pytest.fixture
def images():
    """Sixty images: of three known classes and, the last twenty, of a fourth; embeddings, cosines, source means."""
    rng = np.random.default_rng(0)
    centres = np.eye(4, 8) * 3
    label = np.repeat([0, 1, 2, 3], [14, 13, 13, 20])
    x = centres[label] + 0.5 * rng.normal(size=(60, 8)) + 1.0  # the domain is shifted
    cosines = 0.2 + 0.05 * np.eye(4)[label][:, :3] + 0.02 * rng.normal(size=(60, 3))
    return UnlabelledRows({"original": x}, cosines), label, np.eye(3, 8)


def test_the_score_is_that_of_the_equations(images):
    rows, _, means = images
    state, _ = reject(empty_state(8), rows, means, np.arange(3))
    wanted = [
        -max(t)
        for t in oracle.fit_of_task(
            rows.views["original"].tolist(), rows.cosines.tolist(), means.tolist()
        )
    ]
    np.testing.assert_allclose(unknownness(state, rows, means), wanted, rtol=1e-9)


def test_unknown_images_are_rejected_and_known_ones_stay(images):
    rows, label, means = images
    state, unknown = reject(empty_state(8), rows, means, np.arange(3))
    assert unknown[label == 3].mean() > 0.9
    assert unknown[label < 3].mean() < 0.1
    np.testing.assert_array_equal(unknownness(state, rows, means) > state.threshold, unknown)


def test_no_other_threshold_parts_the_values_better():
    rng = np.random.default_rng(1)
    u = np.concatenate([rng.normal(-3, 1, 80), rng.normal(2, 1, 40)])
    centres = (EDGES[:-1] + EDGES[1:]) / 2
    histogram = np.histogram(u, EDGES)[0].astype(float)
    binned = np.repeat(centres, histogram.astype(int)).tolist()
    best = oracle.between_variance(binned, otsu_threshold(histogram))
    assert best == pytest.approx(max(oracle.between_variance(binned, edge) for edge in EDGES))


def test_nothing_is_rejected_where_all_images_are_alike():
    assert otsu_threshold(np.zeros(480)) == np.inf


def test_states_add(images):
    rows, _, means = images
    first, second = rows.take(np.arange(30)), rows.take(np.arange(30, 60))
    one, _ = reject(empty_state(8), first, means, np.arange(3))
    both, _ = reject(one, second, means, np.arange(3))
    assert both.embedding[-1] == both.histogram.sum() == 60
    more = one + RejectionState(one.embedding, np.ones((5, 4)), one.histogram)
    assert more.moments[0].tolist() == [31, 31, 31, 1]


def test_classes_that_no_image_is_of_are_left_out():
    rng = np.random.default_rng(2)
    logits = 2 * np.eye(6)[rng.choice([1, 4], 80)] + 0.7 * rng.normal(size=(80, 6))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert present_classes(p).tolist() == [1, 4]
    assert present_classes(p[:0]).tolist() == [0, 1, 2, 3, 4, 5]


def test_measures():
    rng = np.random.default_rng(3)
    labels, predicted = rng.integers(-1, 3, 50), rng.integers(0, 3, 50)
    u = rng.integers(0, 9, 50) / 10  # with ties
    scores = label_space_scores(labels, predicted, u > 0.5, u)
    right = [
        [bool(p == c and v <= 0.5) for y, p, v in zip(labels, predicted, u, strict=True) if y == c]
        for c in range(3)
    ]
    shared = sum(sum(r) / len(r) for r in right) / 3
    unknown = np.mean([v > 0.5 for y, v in zip(labels, u, strict=True) if y == -1])
    assert scores.shared == pytest.approx(shared)
    assert scores.unknown == pytest.approx(unknown)
    assert scores.h_score == pytest.approx(2 / (1 / shared + 1 / unknown))
    assert scores.auroc == pytest.approx(oracle.auroc(u, labels == -1))


def test_without_unknown_images_there_is_no_h_score():
    scores = label_space_scores(np.array([0]), np.array([0]), np.array([False]), np.array([0.0]))
    assert scores.shared == 1
    assert np.isnan([scores.unknown, scores.h_score, scores.auroc]).all()
