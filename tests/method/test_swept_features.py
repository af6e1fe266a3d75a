"""Features of a sweep's bases are those of each basis on its own, in whatever order they are asked for."""

import itertools

import numpy as np
import pytest

from pipeline.method.kernel_directions import reduced
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.swept_features import SweptFeatures
from pipeline.method.variants import CALIBRATED

WIDTHS = (8, 30, 47, 64)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_they_are_those_of_each_basis(order):
    x = np.random.default_rng(0).normal(size=(20, 10)).astype(np.float32)
    widest = draw_basis(10, 64, 1e-4, "gamma", 0)
    bases = [draw_basis(10, D, gamma, "gamma", 0) for D, gamma in ((30, 1e-4), (64, 1e-4), (47, 1e-5))]
    narrow = [reduced(basis, CALIBRATED) for basis in bases]
    assert [basis.width for basis in narrow] == [11, 11, 11]
    swept = SweptFeatures(widest, WIDTHS)
    found = {i: (swept.deviations(narrow[i], x), swept.deviations(bases[i], x)) for i in order}
    for i, both in found.items():
        for basis, features in zip((narrow[i], bases[i]), both, strict=True):
            expected = deviations(basis, x)
            np.testing.assert_allclose(features, expected, atol=2e-6 * np.abs(expected).max())
    again = SweptFeatures(widest, WIDTHS)
    for i in range(3):  # to the bit
        np.testing.assert_array_equal(again.deviations(narrow[i], x), found[i][0])
