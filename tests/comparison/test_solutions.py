"""Test blocked triangular solves and solves for many ridges against NumPy, and that other threads run meanwhile."""

import threading
import time

import numpy as np
import pytest

from pipeline.comparison.ridge_solutions import ridge_solutions
from pipeline.method.cholesky import factor, solve

RIDGES = (1e-3, 1.0, 1e3)


def gram(n):
    rows = np.random.default_rng(n).normal(size=(2 * n, n))
    return rows.T @ rows


@pytest.mark.parametrize("n", [1, 2, 3, 70, 300])
def test_ridge_solutions_agree_with_numpy_and_change_no_argument(n):
    A, right = gram(n), np.random.default_rng(0).normal(size=(n, 4))
    expected = [np.linalg.solve(A + ridge * np.eye(n), right) for ridge in RIDGES]
    copies = A.copy(), right.copy()
    np.testing.assert_allclose(ridge_solutions(A, right, RIDGES), np.hstack(expected), rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(A, copies[0])
    np.testing.assert_array_equal(right, copies[1])


@pytest.mark.parametrize("solve_for", [lambda A: ridge_solutions(A, A[:, :5], RIDGES), lambda A: solve(A, A)])
def test_another_thread_runs_during_a_solve(solve_for):
    A, done = gram(1000), []

    def work():
        start = time.thread_time()
        solve_for(A)
        done.append(time.thread_time() - start)

    thread, start = threading.Thread(target=work), time.thread_time()
    thread.start()
    while not done:
        pass
    assert time.thread_time() - start > 0.2 * done[0]  # almost 0 if the solve held the GIL


@pytest.mark.parametrize("D", [1, 127, 128, 129, 300])
def test_solves_agree_with_numpy_and_ignore_the_upper_triangle(D):
    rows, right = (np.random.default_rng(D).normal(size=shape) for shape in ((2 * D, D), (D, 3)))
    A = rows.T @ rows + np.eye(D)
    triangle = np.asfortranarray(np.tril(A) + np.triu(np.full((D, D), np.nan), 1))
    np.testing.assert_allclose(solve(triangle, right), np.linalg.solve(A, right), rtol=1e-8)
    L = factor(triangle)
    np.testing.assert_allclose(L.lower @ L.lower.T, A, rtol=1e-10)
    np.testing.assert_allclose(L.lower @ L.forward(right), right, atol=1e-9)
    np.testing.assert_allclose(L.lower.T @ L.backward(right), right, atol=1e-9)
