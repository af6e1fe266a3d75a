"""Bins of confidence, counted by hand."""

import numpy as np
import pytest

from pipeline.method.continual_metrics import expected_calibration_error
from pipeline.method.reliability import confidence_bins


def test_counts_confidence_and_hits_of_each_bin():
    confidence = np.array([0.0, 0.05, 0.5, 0.55, 1.0])
    right = np.array([True, False, True, True, False])
    counts = confidence_bins(confidence, right, bins=2)
    # (0, 0.5] holds its upper end and, as the first, 0 itself
    np.testing.assert_allclose(counts, [[3, 0.55, 2], [2, 1.55, 1]])


def test_the_calibration_error_is_the_gap_of_these_bins():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=300)
    labels = rng.integers(0, 4, 300)
    counts = confidence_bins(p.max(axis=1), p.argmax(axis=1) == labels)
    gaps = np.abs(counts[:, 1] - counts[:, 2]).sum() / 300
    assert expected_calibration_error(p, labels) == pytest.approx(gaps)
    assert counts[:, 0].sum() == 300
