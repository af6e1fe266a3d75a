"""Triangular solves by blocks and all ridges at once, against NumPy's general solver; other threads run meanwhile."""

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
def test_solutions_are_numpys(n):
    A, right = gram(n), np.random.default_rng(0).normal(size=(n, 4))
    expected = [np.linalg.solve(A + ridge * np.eye(n), right) for ridge in RIDGES]
    given = A.copy(), right.copy()
    np.testing.assert_allclose(ridge_solutions(A, right, RIDGES), np.hstack(expected), rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(A, given[0])
    np.testing.assert_array_equal(right, given[1])


@pytest.mark.parametrize("solved", [lambda A: ridge_solutions(A, A[:, :5], RIDGES), lambda A: solve(A, A)])
def test_another_thread_runs_meanwhile(solved):
    A, done = gram(1000), []

    def work():
        start = time.thread_time()
        solved(A)
        done.append(time.thread_time() - start)

    thread, start = threading.Thread(target=work), time.thread_time()
    thread.start()
    while not done:
        pass
    assert time.thread_time() - start > 0.2 * done[0]  # with the lock held it would be next to nothing


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
