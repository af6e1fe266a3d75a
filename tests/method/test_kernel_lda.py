import numpy as np
import pytest

from pipeline.errors import InputError, ParamsError
from pipeline.method import class_statistics as cs
from pipeline.method import kernel_lda
from pipeline.method.random_fourier_features import deviation, draw_basis
from pipeline.method.zero_shot import softmax
from reference import class_statistics as statistics_oracle
from reference import kernel_lda as oracle


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    x = rng.normal(size=(90, 8)) + 1.5 * np.eye(8)[labels]
    basis = draw_basis(8, 20, 1.0, "bandwidth", 0)
    delta = deviation(basis, x).astype(np.float64)
    return delta, labels, rng.uniform(0.2, 1, 90), delta + basis.pivot


def test_deviation_coordinates_change_no_probability(data):
    delta, labels, weights, z = data
    mu = statistics_oracle.means(z, labels, weights, 3)
    A = oracle.regularised(statistics_oracle.covariance(z, labels, weights, 3), 0.1)
    classifier = kernel_lda.fit(cs.from_rows(delta, labels, weights, 3), ridge=0.1)
    ours, theirs = classifier.scores(delta), oracle.scores(z, mu, A)
    np.testing.assert_allclose(softmax(ours), softmax(theirs), atol=1e-9)
    difference = ours - theirs  # the pivot's bracket: one constant per sample
    np.testing.assert_allclose(difference - difference[:, :1], 0, atol=1e-8)


@pytest.mark.parametrize("route", ["cholesky", "pinverse"])
def test_mahalanobis_logits_are_the_released_codes(data, route):
    delta, labels, weights, z = data
    statistics = cs.from_rows(delta, labels, weights, 3)
    scatter = statistics.within_scatter()
    classifier = kernel_lda.discriminants(statistics.means(), scatter, ridge=1e-6, route=route)
    mu = statistics_oracle.means(z, labels, weights, 3)
    S = statistics_oracle.covariance(z, labels, weights, 3) * weights.sum() + 1e-6 * np.eye(20)
    expected = softmax(oracle.mahalanobis(z, mu, S))
    np.testing.assert_allclose(
        softmax(kernel_lda.mahalanobis_logits(classifier, delta)), expected, atol=1e-8
    )


@pytest.mark.parametrize(
    ("name", "formula"), [("oas", oracle.oas), ("ledoit_wolf", oracle.rao_blackwell_ledoit_wolf)]
)
def test_shrinkage_estimates_are_the_printed_formulas(data, name, formula):
    delta, labels, _, _ = data
    statistics = cs.from_rows(delta, labels, None, 3)
    full = cs.symmetric(statistics.covariance())
    rho = kernel_lda.shrinkage_intensity(statistics.covariance(), name, 87)
    assert rho == pytest.approx(formula(full, 87))
    assert 0 < rho < 1
    shrunk = cs.symmetric(kernel_lda.shrink(statistics.covariance(), name, 87))
    expected = (1 - rho) * full + rho * np.trace(full) / 20 * np.eye(20)
    np.testing.assert_allclose(shrunk, expected, atol=1e-15)
    np.testing.assert_allclose(
        kernel_lda.fit(statistics, shrinkage=name).W,
        kernel_lda.fit(statistics, shrinkage=rho).W,
    )


def test_oas_is_near_scikit_learns():
    covariance = pytest.importorskip("sklearn.covariance")
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(60, 30)) * np.linspace(0.5, 2, 30)).astype(np.float32)
    theirs = covariance.OAS().fit(x).shrinkage_  # drops the terms in 2/p and counts the mean
    statistics = cs.from_rows(x, np.zeros(60, int), None, 1)
    ours = kernel_lda.shrinkage_intensity(statistics.covariance(), "oas", 60)
    assert ours == pytest.approx(theirs, rel=0.05)


def test_priors_shift_the_scores_by_their_logarithm(data):
    delta, labels, weights, _ = data
    statistics = cs.from_rows(delta, labels, weights, 3)
    plain = kernel_lda.fit(statistics, ridge=0.1)
    with_priors = kernel_lda.fit(statistics, ridge=0.1, priors=np.array([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(with_priors.b - plain.b, np.log([0.25, 0.5, 0.25]))
    with pytest.raises(ParamsError, match="priors"):
        kernel_lda.fit(statistics, ridge=0.1, priors=np.array([1.0, 0.0, 1.0]))


def test_an_empty_class_is_an_error_or_falls_back(data):
    delta, labels, weights, _ = data
    statistics = cs.from_rows(delta, labels, weights, 5)
    with pytest.raises(InputError, match="no sample of class 3, 4"):
        kernel_lda.fit(statistics, ridge=0.1)
    fallback = np.full((5, 20), np.nan)
    fallback[3:] = 0.25
    means = kernel_lda.filled_means(statistics, fallback)
    np.testing.assert_array_equal(means[3:], 0.25)
    np.testing.assert_array_equal(means[:3], statistics.means()[:3])
    fallback[4] = np.nan
    with pytest.raises(InputError, match="class 4, and no fallback"):
        kernel_lda.fit(statistics, ridge=0.1, fallback=fallback)


def test_fewer_rows_than_features_need_a_ridge():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 20)).astype(np.float32)
    statistics = cs.from_rows(rows, np.arange(6) % 2, None, 2)
    with pytest.raises(InputError, match="singular"):
        kernel_lda.fit(statistics)
    assert np.isfinite(kernel_lda.fit(statistics, ridge=0.1).W).all()


def test_mistakes_are_named(data):
    statistics = cs.from_rows(data[0], data[1], None, 3)
    with pytest.raises(ParamsError, match="did you mean 'oas'"):
        kernel_lda.fit(statistics, shrinkage="oass")
    with pytest.raises(ParamsError, match="from 0 to 1"):
        kernel_lda.fit(statistics, shrinkage=1.5)
    with pytest.raises(ParamsError, match="ridge"):
        kernel_lda.fit(statistics, ridge=-1.0)
