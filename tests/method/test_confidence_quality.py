"""Whether a confidence or a weight can be trusted: bins, calibration, and rank quality by counting pairs."""

import math

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method.confidence_quality import calibration_error, confidence_bins, ranking_quality, weight_bins
from pipeline.method.zero_shot import softmax
from reference import continual_metrics as oracle


def test_counts_confidence_and_hits_of_each_bin():
    confidence = np.array([0.0, 0.05, 0.5, 0.55, 1.0])
    right = np.array([True, False, True, True, False])
    counts = confidence_bins(confidence, right, bins=2)
    # (0, 0.5] holds its upper end and, as the first, 0 itself
    np.testing.assert_allclose(counts, [[3, 0.55, 2], [2, 1.55, 1]])


def test_calibration_is_the_oracles():
    rng = np.random.default_rng(0)
    p, labels = softmax(2 * rng.normal(size=(200, 4))), rng.integers(0, 4, 200)
    expected = oracle.ece(p.tolist(), labels.tolist(), 15)
    right = p.argmax(axis=1) == labels
    assert calibration_error(p.max(axis=1), right) == pytest.approx(expected)
    assert calibration_error(np.ones(200), np.ones(200, bool)) == 0.0
    with pytest.raises(InputError, match="no samples"):
        calibration_error(np.ones(0), np.ones(0, bool))


def by_pairs(weight, right):
    """Return the share of pairs in which the right label weighs more, ties half."""
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in weight[right] for b in weight[~right]]
    return sum(pairs) / len(pairs)


@pytest.mark.parametrize("levels", [3, 1000])
def test_ranking_quality_counts_pairs(levels):
    rng = np.random.default_rng(levels)
    weight = rng.integers(0, levels, 60) / levels
    right = rng.random(60) < 0.3 + 0.6 * weight
    assert ranking_quality(weight, right) == pytest.approx(by_pairs(weight, right))


def test_equal_weights_know_nothing_and_without_mistakes_there_is_nothing_to_know():
    assert ranking_quality(np.ones(4), np.array([True, False, True, True])) == 0.5
    assert math.isnan(ranking_quality(np.ones(3), np.ones(3, dtype=bool)))
    assert math.isnan(ranking_quality(np.zeros(0), np.zeros(0, dtype=bool)))


def test_bins_of_about_equal_counts_cover_all():
    rng = np.random.default_rng(0)
    weight, right = rng.random(1003), rng.random(1003) < 0.5
    rows = weight_bins(weight, right)
    assert len(rows) == 10
    assert rows[:, 3].sum() == 1003
    assert rows[:, 3].min() >= 99
    assert (rows[1:, 0] > rows[:-1, 1]).all()  # each begins above where the one before ends
    assert rows[:, 3] @ rows[:, 4] == pytest.approx(right.sum())
    assert rows[:, 3] @ rows[:, 2] == pytest.approx(weight.sum())


def test_equal_weights_share_a_bin():
    weight = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    rows = weight_bins(weight, np.array([False, True, True, False, True]))
    assert rows[-1].tolist() == [1.0, 1.0, 1.0, 4, 0.75]
    assert len(weight_bins(np.ones(7), np.ones(7, dtype=bool))) == 1
    assert weight_bins(np.zeros(0), np.zeros(0, dtype=bool)).shape == (0, 5)
