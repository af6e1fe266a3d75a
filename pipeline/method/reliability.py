"""Counts per bin of confidence, for a reliability diagram; counts of several seeds add."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.method.rows import Matrix64, Vector64

BINS = 15  # equal widths (a, b], as the calibration error has them


def confidence_bins(confidence: Vector64, right: npt.NDArray[np.bool_], *, bins: int = BINS) -> Matrix64:
    """Return per bin (bins, 3): how many samples, the sum of their confidence, how many are right."""
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    sums = (None, confidence, right.astype(np.float64))
    return np.stack([np.bincount(bin_of, weights, minlength=bins) for weights in sums], axis=1)
