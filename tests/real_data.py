"""Real photographs and weights to measure on; they stay out of the repository (the photos carry no licence)."""

from pathlib import Path

import pytest

REAL = Path(__file__).parents[2] / "shared" / "real"

needs_real_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="../shared/real (real photos, ImageNet weights) is not on this machine"
)
