import pickle

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import class_statistics as cs
from reference import class_statistics as oracle


def random_rows(seed, n=60, D=9, C=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, C, n)
    rows = (rng.normal(size=(n, D)) + labels[:, None]).astype(np.float32).astype(np.float64)
    return rows, labels, rng.uniform(0, 1, n)


def statistics_of(rows, labels, weights=None, C=4):
    return cs.zeros(C, rows.shape[1]).update(rows, labels, weights)


def assert_equal_statistics(a, b, rtol=1e-9):
    arrays = a.to_arrays()
    for name, expected in b.to_arrays().items():
        atol = rtol * max(np.abs(expected).max(), 1e-300)
        np.testing.assert_allclose(arrays[name], expected, rtol=rtol, atol=atol, err_msg=name)


def test_pickled_statistics_keep_every_bit_in_one_triangle():
    statistics = statistics_of(*random_rows(2, D=200))
    pickled = pickle.dumps(statistics)
    assert len(pickled) < 0.6 * statistics.scatter.nbytes
    loaded = pickle.loads(pickled)
    assert_equal_statistics(loaded, statistics, rtol=0)
    loaded += statistics  # still in the layout that is updated in place
    assert_equal_statistics(loaded, statistics + statistics)


def test_degrees_of_freedom_are_the_effective_rows_minus_the_classes():
    rows, labels, _ = random_rows(0)
    assert statistics_of(rows, labels).degrees_of_freedom() == pytest.approx(60 - 4)
    assert statistics_of(rows, labels, np.full(60, 0.3)).degrees_of_freedom() == pytest.approx(56)
    one_class = cs.zeros(1, 2).update(np.eye(2), np.zeros(2, int), np.array([1.0, 3.0]))
    assert one_class.degrees_of_freedom() == pytest.approx(4**2 / 10 - 1)  # (Σω)² / Σω² − 1


def test_invalid_labels_weights_versions_and_widths_are_refused():
    rows, labels, weights = random_rows(0)
    with pytest.raises(InputError, match="classes are 0–2"):
        statistics_of(rows, labels, weights, 3)
    with pytest.raises(InputError, match="negative"):
        statistics_of(rows, labels, -weights)
    with pytest.raises(InputError, match="another version"):  # in a pickle
        cs.ClassStatistics.from_arrays({**cs.zeros(2, 3).to_arrays(), "cubes": np.zeros(2)})
    with pytest.raises(InputError, match="do not merge"):
        cs.zeros(2, 3) + cs.zeros(2, 4)


def test_rows_with_shares_enter_each_class_by_its_share():
    rows, labels, weights = random_rows(5)
    hard, shares = np.eye(4)[labels], np.random.default_rng(5).dirichlet(np.ones(4), len(rows))
    assert_equal_statistics(statistics_of(rows, hard, weights), statistics_of(rows, labels, weights))
    soft = statistics_of(rows, shares, weights)
    repeated = (np.repeat(rows, 4, axis=0), np.tile(np.arange(4), 60), (weights[:, None] * shares).ravel(), 4)
    np.testing.assert_allclose(soft.means(), oracle.means(*repeated))
    covariance = cs.symmetric(soft.within().triangle) / soft.total_weight
    np.testing.assert_allclose(covariance, oracle.covariance(*repeated), atol=1e-12)
    assert soft.total_weight == pytest.approx(weights.sum())
