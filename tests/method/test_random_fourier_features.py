import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError, ParamsError
from pipeline.method.random_fourier_features import deviations, draw_basis, kernel_error, kernel_gamma, median_bandwidth
from reference import random_fourier_features as oracle


@pytest.mark.parametrize(
    ("convention", "sigma", "spread"), [("bandwidth", 0.5, 2.0), ("spread", 0.3, 0.3), ("gamma", 0.02, 0.2)]
)
def test_the_convention_decides_the_spread_of_frequencies(convention, sigma, spread):
    basis = draw_basis(50, 2000, sigma, convention, seed=0)
    assert basis.omega.std() == pytest.approx(spread, rel=0.02)
    assert basis.gamma == pytest.approx(spread**2 / 2)
    assert 0 <= basis.beta.min() < 0.1
    assert 6.2 < basis.beta.max() <= 2 * math.pi + 1e-6


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("sigma", [1e-4, 1.0])
def test_deviations_equal_the_oracles_to_float32_precision(sigma, orthogonal):
    x = np.random.default_rng(0).normal(size=(5, 30))
    basis = draw_basis(30, 64, sigma, "gamma", seed=1, orthogonal=orthogonal)
    exact = np.array([oracle.feature(row, basis.omega, basis.beta) for row in x]) - basis.pivot
    scale = np.abs(exact).max()
    found = deviations(basis, x)
    error = np.abs(found - exact).max() / scale
    assert found.dtype == np.float32
    assert error < 2e-6
    if sigma == 1e-4:
        z = (exact + basis.pivot).astype(np.float32)
        naive_error = np.abs((z - basis.pivot.astype(np.float32)) - exact).max() / scale
        assert naive_error > 10 * error


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 200), st.integers(1, 150), st.integers(0, 2**63 - 1), st.booleans())
def test_bases_are_nested_in_D(d, D, added, seed, orthogonal):
    small = draw_basis(d, D, 1e-4, "gamma", seed, orthogonal=orthogonal)
    large = draw_basis(d, D + added, 1e-4, "gamma", seed, orthogonal=orthogonal)
    nested = large.nested(D)
    np.testing.assert_array_equal(small.omega, nested.omega)
    np.testing.assert_array_equal(small.beta, nested.beta)


def test_orthogonal_frequencies_are_orthogonal_with_gaussian_lengths():
    basis = draw_basis(64, 128, 0.5, "gamma", seed=0, orthogonal=True)
    for block in (basis.omega[:, :64], basis.omega[:, 64:]):
        gram = block.T.astype(np.float64) @ block
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-4)
    lengths = np.linalg.norm(basis.omega, axis=0)
    assert lengths.mean() == pytest.approx(8.0, rel=0.02)
    assert 0.4 < lengths.std() < 1.1


def test_the_kernel_error_equals_the_oracles():
    x = np.random.default_rng(0).normal(size=(6, 4))
    basis = draw_basis(4, 10, 0.7, "bandwidth", seed=0)
    z = [oracle.feature(row, basis.omega, basis.beta) for row in x]
    errors = [np.dot(z[i], z[j]) - oracle.kernel(x[i], x[j], basis.gamma) for i in range(6) for j in range(6)]
    found = kernel_error(basis, x)
    assert found.kernel_rms == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-5)
    assert found.kernel_max == pytest.approx(np.abs(errors).max(), rel=1e-5)


def test_the_median_bandwidth_is_the_median_distance():
    x = np.random.default_rng(0).normal(size=(30, 5))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = [np.linalg.norm(unit[i] - unit[j]) for i in range(30) for j in range(i)]
    assert median_bandwidth(x) == pytest.approx(np.median(pairs))
    with pytest.raises(InputError, match="two different rows"):
        median_bandwidth(np.ones((3, 2)))


def test_invalid_settings_and_widths_are_refused():
    with pytest.raises(ParamsError, match="did you mean 'spread'"):
        kernel_gamma(1.0, "sprad")
    with pytest.raises(ParamsError, match=r"rff\.sigma"):
        kernel_gamma(0.0, "gamma")
    with pytest.raises(ParamsError, match="among the 4"):
        draw_basis(2, 4, 1.0, "gamma", 0).nested(5)
    with pytest.raises(InputError, match="d = 2"):
        deviations(draw_basis(2, 4, 1.0, "gamma", 0), np.ones((1, 3)))
