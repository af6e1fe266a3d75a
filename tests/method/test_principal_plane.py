"""The plane of two principal components, and even subsamples."""

import numpy as np
import pytest

from pipeline.method.principal_plane import evenly, principal_plane


@pytest.mark.parametrize("seed", range(6))
def test_it_has_the_largest_variances_and_axes_that_point_to_where_their_largest_component_grows(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 6)) * np.array([9, 4, 1, 0.5, 0.1, 0.1]) + 7
    flat, share = principal_plane(x)
    largest = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    np.testing.assert_allclose(flat.var(axis=0, ddof=1), largest[:2])
    np.testing.assert_allclose(share, largest[:2] / largest.sum())
    assert flat.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert np.corrcoef(flat.T)[0, 1] == pytest.approx(0, abs=1e-9)
    assert np.corrcoef(flat[:, 0], x[:, 0])[0, 1] > 0
    assert np.corrcoef(flat[:, 1], x[:, 1])[0, 1] > 0


@pytest.mark.parametrize("x", [np.ones((5, 3)), np.ones((1, 3)), np.array([[1.0], [2.0]])])
def test_rows_without_two_directions(x):
    flat, share = principal_plane(x)
    assert flat.shape == (len(x), 2)
    assert np.isfinite(flat).all()
    assert (flat[:, 1] == 0).all()
    assert share[1] == 0


def test_evenly():
    some = np.arange(10, 30)
    assert evenly(some, 20) is some
    assert evenly(some, 5).tolist() == [10, 15, 20, 24, 29]
