"""Metrics against naive oracles: accuracy matrix, averages, error of A_T, calibration, AUROC."""

import math

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import continual_metrics as metrics
from pipeline.method.continual_metrics import calibration_error, image_covariance, ranking_quality, weight_bins
from pipeline.method.zero_shot import softmax
from reference import continual_metrics as oracle
from reference.rejection import auroc


def test_matrix_averages_and_forgetting_equal_the_oracles():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(60) % 6)
    predictions = [np.where(rng.random(60) < 0.7, labels, rng.integers(0, 6, 60)) for _ in range(3)]
    a = metrics.accuracy_matrix(predictions, labels, labels // 2)
    expected = oracle.matrix([p.tolist() for p in predictions], labels.tolist(), (labels // 2).tolist())
    for k in range(3):
        np.testing.assert_allclose(a[k, : k + 1], expected[k][: k + 1])
        assert np.isnan(a[k, k + 1 :]).all()
    averages = [oracle.average(expected, k) for k in range(3)]
    np.testing.assert_allclose(metrics.accuracy_after_each_task(a), averages)
    assert metrics.final_accuracy(a) == pytest.approx(averages[-1])
    assert metrics.average_incremental_accuracy(a) == pytest.approx(np.mean(averages))
    assert metrics.forgetting(a) == pytest.approx(oracle.forgetting(expected))
    assert metrics.forgetting(np.array([[0.5]])) == 0.0  # single task
    with pytest.raises(InputError, match="task 3 of 3"):
        metrics.accuracy_matrix(predictions, labels, np.minimum(labels // 2, 1))


def test_per_class_accuracy_is_nan_for_a_class_without_images():
    predictions, labels = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
    np.testing.assert_allclose(metrics.per_class_accuracy(predictions, labels, 3), [2 / 3, 1.0, np.nan])


def test_image_covariance_equals_the_oracles():
    rng = np.random.default_rng(0)
    images = [np.array([0, 2, 3, 5, 6, 7]), np.array([7, 1, 2, 4, 5])]
    tasks = [np.array([0, 0, 1, 1, 1, 0]), np.array([1, 0, 1, 0, 1])]
    right = [rng.random((3, len(rows))) < 0.7 for rows in images]
    expected = oracle.image_covariance(
        [r.astype(int).tolist() for r in right], [t.tolist() for t in tasks], [i.tolist() for i in images]
    )
    np.testing.assert_allclose(image_covariance(right, tasks, images), expected, atol=1e-15)


def test_the_error_equals_the_spread_under_resampling_of_images():
    rng = np.random.default_rng(1)
    tasks = np.repeat([0, 1], [300, 100])
    right = (rng.random((2, 400)) < [[0.9], [0.85]]) | (rng.random(400) < 0.5)
    C = image_covariance([right], [tasks], [np.arange(400)])
    error = np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    draws = []
    for _ in range(1000):
        rows = np.concatenate([rng.choice(np.flatnonzero(tasks == t), n) for t, n in ((0, 300), (1, 100))])
        first, second = ((r[rows[:300]].mean() + r[rows[300:]].mean()) / 2 for r in right)
        draws.append(first - second)
    assert abs(np.std(draws) / error - 1) < 0.1


def test_calibration_equals_the_oracles(monkeypatch):
    rng = np.random.default_rng(0)
    p, labels = softmax(2 * rng.normal(size=(200, 4))), rng.integers(0, 4, 200)
    expected = oracle.ece(p.tolist(), labels.tolist(), 15)
    assert calibration_error(p.max(axis=1), p.argmax(axis=1) == labels) == pytest.approx(expected)
    monkeypatch.setattr(metrics, "BINS", 2)
    # (0, 0.5] includes its upper end and, as the first bin, 0
    right = np.array([True, False, True, True, False])
    counts = metrics.confidence_bins(np.array([0.0, 0.05, 0.5, 0.55, 1.0]), right)
    np.testing.assert_allclose(counts, [[3, 0.55, 2], [2, 1.55, 1]])


@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_ranking_quality_counts_pairs(levels):
    rng = np.random.default_rng(levels)
    weight = rng.integers(0, levels, 60) / levels
    right = rng.random(60) < 0.3 + 0.6 * weight
    assert ranking_quality(weight, right) == pytest.approx(auroc(weight, right))
    assert math.isnan(ranking_quality(weight, np.ones(60, dtype=bool)))  # no mistakes to rank


def test_weight_bins_have_about_equal_counts_and_equal_weights_share_a_bin():
    rng = np.random.default_rng(0)
    weight, right = rng.random(1003), rng.random(1003) < 0.5
    rows = weight_bins(weight, right)
    assert len(rows) == 10
    assert rows[:, 3].sum() == 1003
    assert rows[:, 3].min() >= 99
    assert (rows[1:, 0] > rows[:-1, 1]).all()  # bins do not overlap
    assert rows[:, 3] @ rows[:, 4] == pytest.approx(right.sum())
    assert rows[:, 3] @ rows[:, 2] == pytest.approx(weight.sum())
    rows = weight_bins(np.array([0.0, 1.0, 1.0, 1.0, 1.0]), np.array([False, True, True, False, True]))
    assert rows[-1].tolist() == [1.0, 1.0, 1.0, 4, 0.75]
    assert weight_bins(np.zeros(0), np.zeros(0, dtype=bool)).shape == (0, 5)
