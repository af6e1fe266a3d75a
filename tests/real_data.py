"""Locate real photos and weights, which are not in the repository because the photos have no licence."""

from pathlib import Path

import pytest

REAL = Path(__file__).parents[2] / "shared" / "real"

needs_real_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="../shared/real (real photos, ImageNet weights) is not on this machine"
)
