import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import class_statistics as cs
from pipeline.method.kernel_lda import Regularisation, filled_means, solve
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.within_scatter import DenseScatter, shrinkage_intensity
from pipeline.method.zero_shot import softmax
from reference import class_statistics as statistics_oracle
from reference import kernel_lda as oracle


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    x = rng.normal(size=(90, 8)) + 1.5 * np.eye(8)[labels]
    basis = draw_basis(8, 20, 1.0, "bandwidth", 0)
    delta, weights = deviations(basis, x).astype(np.float64), rng.uniform(0.2, 1, 90)
    return delta, labels, weights, delta + basis.pivot, cs.zeros(3, 20).update(delta, labels, weights)


def fitted(statistics, regularisation):
    """Return the classifier of statistics, with the ridge computed from them."""
    scatter, means = statistics.within(), statistics.means()
    ridge = regularisation.absolute_ridge(scatter, means, means.shape[1])
    return solve(means, scatter, regularisation, ridge=ridge)


def test_deviation_coordinates_change_no_probability(data):
    delta, labels, weights, z, statistics = data
    mu = statistics_oracle.means(z, labels, weights, 3)
    A = oracle.regularised(statistics_oracle.covariance(z, labels, weights, 3), 0.1)
    found, expected = fitted(statistics, Regularisation(0.1)).scores(delta), oracle.scores(z, mu, A)
    np.testing.assert_allclose(softmax(found), softmax(expected), atol=1e-9)
    difference = found - expected  # one constant per sample
    np.testing.assert_allclose(difference - difference[:, :1], 0, atol=1e-8)


def test_an_absolute_ridge_is_added_to_the_covariance(data):
    statistics = data[-1]
    A = cs.symmetric(statistics.within().triangle) / statistics.total_weight + 0.01 * np.eye(20)
    classifier = fitted(statistics, Regularisation(0.01, relative=False))
    np.testing.assert_allclose(classifier.W, np.linalg.solve(A, statistics.means().T), rtol=1e-9)


@pytest.mark.parametrize(("name", "formula"), [("oas", oracle.oas), ("ledoit_wolf", oracle.rao_blackwell_ledoit_wolf)])
def test_shrinkage_follows_the_published_formula_at_any_scale(data, name, formula):
    statistics = data[-1]
    scatter = DenseScatter(statistics.within().triangle, statistics.total_weight, 87)
    full = cs.symmetric(scatter.triangle)
    rho = shrinkage_intensity(scatter.triangle, name, 87)
    assert rho == pytest.approx(formula(full / statistics.total_weight, 87))
    assert 0 < rho < 1
    scatter.shrink(name)
    expected = (1 - rho) * full + rho * np.trace(full) / 20 * np.eye(20)
    np.testing.assert_allclose(cs.symmetric(scatter.triangle), expected, atol=1e-13)


def test_an_empty_class_is_an_error_or_falls_back():
    means = np.array([[1.0, 2.0], [np.nan, np.nan], [np.nan, np.nan]])
    fallback = np.array([[9.0, 9.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(filled_means(means, fallback), [[1, 2], [3, 4], [5, 6]])
    with pytest.raises(InputError, match="no sample of class 1, 2"):
        filled_means(means)
    fallback[2] = np.nan
    with pytest.raises(InputError, match="no sample of class 2"):
        filled_means(means, fallback)


def test_statistics_without_a_solution_are_refused(data):
    few = cs.zeros(2, 20).update(data[0][:6].astype(np.float32), np.arange(6) % 2)
    with pytest.raises(InputError, match="singular: give a larger ridge"):  # fewer rows than features
        fitted(few, Regularisation(0.0))
    with pytest.raises(InputError, match="no row has any weight"):
        fitted(cs.zeros(2, 20), Regularisation(0.1, relative=False))
    statistics = cs.zeros(2, 20).update(data[0][:6], np.arange(6) % 2)
    statistics.sums[0, 0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        fitted(statistics, Regularisation(1.0, relative=False))
