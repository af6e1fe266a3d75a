"""Factors and triangular solves by blocks, against NumPy's general solver."""

import numpy as np
import pytest

from pipeline.method.cholesky import factor, solve


@pytest.mark.parametrize("D", [1, 127, 128, 129, 300])
def test_solves_are_numpys_whatever_stands_above_the_diagonal(D):
    rows, right = (np.random.default_rng(D).normal(size=shape) for shape in ((2 * D, D), (D, 3)))
    A = rows.T @ rows + np.eye(D)
    triangle = np.asfortranarray(np.tril(A) + np.triu(np.full((D, D), np.nan), 1))
    np.testing.assert_allclose(solve(triangle, right), np.linalg.solve(A, right), rtol=1e-8)
    found = factor(triangle)
    np.testing.assert_allclose(found.lower @ found.lower.T, A, rtol=1e-10)
    np.testing.assert_allclose(found.lower @ found.forward(right), right, atol=1e-9)
    np.testing.assert_allclose(found.lower.T @ found.backward(right), right, atol=1e-9)
