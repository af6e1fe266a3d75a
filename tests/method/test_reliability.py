"""Bins of confidence, counted by hand."""

import numpy as np

from pipeline.method.reliability import confidence_bins


def test_counts_confidence_and_hits_of_each_bin():
    confidence = np.array([0.0, 0.05, 0.5, 0.55, 1.0])
    right = np.array([True, False, True, True, False])
    counts = confidence_bins(confidence, right, bins=2)
    # (0, 0.5] holds its upper end and, as the first, 0 itself
    np.testing.assert_allclose(counts, [[3, 0.55, 2], [2, 1.55, 1]])
