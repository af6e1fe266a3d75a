"""Coordinates on the principal plane, and evenly spaced subsamples."""

import numpy as np
import pytest

from pipeline.method.principal_plane import evenly_spaced, principal_plane


@pytest.mark.parametrize("seed", range(6))
def test_the_plane_has_the_largest_variances_and_axes_of_fixed_sign(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 6)) * np.array([9, 4, 1, 0.5, 0.1, 0.1]) + 7
    flat = principal_plane(x)
    largest = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    np.testing.assert_allclose(flat.var(axis=0, ddof=1), largest[:2])
    assert flat.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert np.corrcoef(flat.T)[0, 1] == pytest.approx(0, abs=1e-9)
    assert np.corrcoef(flat[:, 0], x[:, 0])[0, 1] > 0
    assert np.corrcoef(flat[:, 1], x[:, 1])[0, 1] > 0


@pytest.mark.parametrize("x", [np.ones((5, 3)), np.ones((1, 3)), np.array([[1.0], [2.0]])])
def test_rows_without_two_directions_have_coordinates_0(x):
    flat = principal_plane(x)
    assert flat.shape == (len(x), 2)
    assert np.isfinite(flat).all()
    assert (flat[:, 1] == 0).all()


def test_evenly_spaced_rows_include_both_ends():
    rows = np.arange(10, 30)
    assert evenly_spaced(rows, 20) is rows
    assert evenly_spaced(rows, 5).tolist() == [10, 15, 20, 24, 29]
