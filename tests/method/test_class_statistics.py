import pickle

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import class_statistics as cs
from reference import class_statistics as oracle


def rows_of(seed, n=60, D=9, C=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, C, n)
    rows = (rng.normal(size=(n, D)) + labels[:, None]).astype(np.float32).astype(np.float64)
    return rows, labels, rng.uniform(0, 1, n)


def summed(rows, labels, weights=None, C=4):
    return cs.zeros(C, rows.shape[1]).update(rows, labels, weights)


def assert_same(a, b, rtol=1e-9):
    found = a.to_arrays()
    for name, expected in b.to_arrays().items():
        atol = rtol * max(np.abs(expected).max(), 1e-300)
        np.testing.assert_allclose(found[name], expected, rtol=rtol, atol=atol, err_msg=name)


def test_statistics_are_pickled_as_one_triangle_and_keep_every_bit():
    statistics = summed(*rows_of(2, D=200))
    sent = pickle.dumps(statistics)
    assert len(sent) < 0.6 * statistics.scatter.nbytes
    back = pickle.loads(sent)
    assert_same(back, statistics, rtol=0)
    back += statistics  # still of the layout that BLAS updates in place
    assert_same(back, statistics + statistics)


def test_degrees_of_freedom_count_rows_about_their_means():
    rows, labels, _ = rows_of(0)
    assert summed(rows, labels).degrees_of_freedom() == pytest.approx(60 - 4)
    assert summed(rows, labels, np.full(60, 0.3)).degrees_of_freedom() == pytest.approx(56)
    one_class = cs.zeros(1, 2).update(np.eye(2), np.zeros(2, int), np.array([1.0, 3.0]))
    assert one_class.degrees_of_freedom() == pytest.approx(4**2 / 10 - 1)  # (Σω)² / Σω² − 1


def test_mistakes_are_named():
    rows, labels, weights = rows_of(0)
    with pytest.raises(InputError, match="classes are 0–2"):
        summed(rows, labels, weights, 3)
    with pytest.raises(InputError, match="negative"):
        summed(rows, labels, -weights)
    with pytest.raises(InputError, match="another version"):  # a pickle of one
        cs.ClassStatistics.from_arrays({**cs.zeros(2, 3).to_arrays(), "cubes": np.zeros(2)})
    with pytest.raises(InputError, match="do not merge"):
        cs.zeros(2, 3) + cs.zeros(2, 4)


def test_rows_of_several_classes_enter_each_by_their_share():
    rows, labels, weights = rows_of(5)
    hard, shares = np.eye(4)[labels], np.random.default_rng(5).dirichlet(np.ones(4), len(rows))
    assert_same(summed(rows, hard, weights), summed(rows, labels, weights))
    soft = summed(rows, shares, weights)
    each = (np.repeat(rows, 4, axis=0), np.tile(np.arange(4), 60), (weights[:, None] * shares).ravel(), 4)
    np.testing.assert_allclose(soft.means(), oracle.means(*each))
    covariance = cs.symmetric(soft.within().triangle) / soft.total_weight
    np.testing.assert_allclose(covariance, oracle.covariance(*each), atol=1e-12)
    assert soft.total_weight == pytest.approx(weights.sum())
