import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method.class_statistics import symmetric
from pipeline.method.moments import BatchCentredMoments, ExactMoments, PrintedMoments
from pipeline.method.random_fourier_features import deviation, draw_basis
from reference import class_statistics as exact_oracle
from reference import paper as paper_oracle

BASIS = draw_basis(6, 12, 1.0, "bandwidth", 0)
TASKS = (np.array([0, 1]), np.array([2, 3]))


def data(seed=0, n=40):
    rng = np.random.default_rng(seed)
    labels = np.sort(np.arange(n) % 4)
    views = [rng.normal(size=(n, 6)) + np.eye(6)[labels] for _ in range(2)]
    return views, labels, rng.uniform(0.3, 1, n)


def z_of(x):
    return deviation(BASIS, x).astype(np.float64) + BASIS.pivot


def filled(accumulator, prior=None):
    views, labels, weights = data()
    for classes in TASKS:
        rows = np.isin(labels, classes)
        accumulator.add_task([x[rows] for x in views], labels[rows], weights[rows], classes, prior)
    return accumulator


def test_exact_moments_are_the_oracles():
    moments = filled(ExactMoments(BASIS)).moments()
    views, labels, weights = data()
    z = np.vstack([z_of(x) for x in views])
    two = (np.tile(labels, 2), np.tile(weights, 2))
    np.testing.assert_allclose(moments.means + BASIS.pivot, exact_oracle.means(z, *two, 4))
    expected = exact_oracle.covariance(z, *two, 4)
    np.testing.assert_allclose(symmetric(moments.covariance()), expected, atol=1e-12)


def test_printed_moments_are_equations_16_and_17():
    moments = filled(PrintedMoments(BASIS)).moments()
    views, labels, weights = data()
    classes = []
    for c in range(4):
        rows = np.vstack([z_of(x[labels == c]) for x in views])
        classes.append((rows, np.tile(weights[labels == c], 2)))
    means, A = paper_oracle.weighted_moments(classes)
    np.testing.assert_allclose(moments.means + BASIS.pivot, means)
    np.testing.assert_allclose(symmetric(moments.covariance()), A, atol=1e-12)
    assert np.linalg.norm(means) < 0.8 * np.linalg.norm(
        filled(ExactMoments(BASIS)).moments().means + BASIS.pivot
    )  # the printed mean shrinks


def test_printed_needs_some_weight():
    views, labels, _ = data()
    with pytest.raises(InputError, match="too little weight"):
        PrintedMoments(BASIS).add_task(views, labels, np.zeros(40), np.arange(4), None)


def test_batch_centring_depends_on_the_batch_and_whole_tasks_are_exact():
    whole = filled(BatchCentredMoments(BASIS, 1000)).moments()
    exact = filled(ExactMoments(BASIS)).moments()
    np.testing.assert_allclose(whole.means, exact.means)
    np.testing.assert_allclose(whole.scatter, exact.scatter, atol=1e-12)
    small = filled(BatchCentredMoments(BASIS, 4)).moments()
    np.testing.assert_allclose(small.means, exact.means)
    assert np.abs(small.scatter - exact.scatter).max() > 1e-3


@pytest.mark.parametrize("kind", [ExactMoments, lambda basis: BatchCentredMoments(basis, 8)])
def test_a_prior_enters_the_mean_with_its_count(kind):
    prior = np.full((2, 12), 0.1)
    plain = filled(ExactMoments(BASIS)).moments()
    moved = filled(kind(BASIS), (prior, 25.0)).moments()
    _, labels, weights = data()
    for c in range(4):
        w = 2 * weights[labels == c].sum()
        expected = (w * plain.means[c] + 25 * 0.1) / (w + 25)
        np.testing.assert_allclose(moved.means[c], expected)


@pytest.mark.parametrize(
    "kind", [ExactMoments, PrintedMoments, lambda basis: BatchCentredMoments(basis, 8)]
)
def test_a_class_without_rows_has_no_mean_and_a_copy_is_independent(kind):
    views, labels, weights = data()
    accumulator = kind(BASIS)
    first = labels == 0
    accumulator.add_task([x[first] for x in views], labels[first], weights[first], TASKS[0], None)
    before = accumulator.moments()
    assert np.isnan(before.means[1]).all()
    copy = accumulator.copied()
    later = labels >= 2
    copy.add_task([x[later] for x in views], labels[later], weights[later], TASKS[1], None)
    assert len(copy.moments().means) == 4
    after = accumulator.moments()
    np.testing.assert_array_equal(after.means, before.means)
    np.testing.assert_array_equal(after.scatter, before.scatter)
