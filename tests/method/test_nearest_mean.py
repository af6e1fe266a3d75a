import numpy as np

from pipeline.method.nearest_mean import class_means, nearest_mean
from reference import nearest_class_mean as oracle


def test_agrees_with_the_oracle():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(40) % 4)
    rows = rng.normal(size=(40, 6)) + 2 * np.eye(6)[labels]
    means = class_means(rows, labels, 4)
    expected = oracle.means([(range(4), rows, labels, np.ones(40))])
    np.testing.assert_allclose(means, expected)
    np.testing.assert_array_equal(nearest_mean(rows, means), oracle.predict(rows, expected))


def test_a_class_without_rows_is_never_the_nearest():
    rows = np.eye(3)
    means = class_means(rows, np.array([0, 0, 2]), 3)
    assert np.isnan(means[1]).all()
    assert 1 not in nearest_mean(rows, means)
