from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import batch_centred as released
from pipeline.method.class_statistics import symmetric
from pipeline.method.moments import (
    ExactMoments,
    LabelledTask,
    PrintedMoments,
    no_moments,
)
from pipeline.method.random_fourier_features import deviation, draw_basis
from pipeline.method.task_features import TaskFeatures
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


def labelled(rows, labels, weights, classes, prior=None):
    views, _, _ = data()
    features = TaskFeatures(BASIS, {str(k): x[rows] for k, x in enumerate(views)})
    kept = np.ones(len(labels), dtype=bool)
    return LabelledTask(features, 0, ["0", "1"], labels, weights, kept, classes, prior)


def exact(arithmetic="float64"):
    return ExactMoments(no_moments(12), arithmetic)


def printed():
    return PrintedMoments(BASIS.pivot, np.zeros((0, 12)), np.zeros((12, 12), order="F"))


def batch_centred(images=8):
    return released.batch_centred(12, images, None)


def filled(accumulator, prior=None):
    _, labels, weights = data()
    for classes in TASKS:
        rows = np.isin(labels, classes)
        task = labelled(rows, labels[rows], weights[rows], classes, prior)
        accumulator = accumulator.with_task(task)
    return accumulator


@pytest.mark.parametrize(("arithmetic", "tolerance"), [("float64", 1e-12), ("float32", 3e-7)])
def test_exact_moments_are_the_oracles(arithmetic, tolerance):
    moments = filled(exact(arithmetic)).moments()
    views, labels, weights = data()
    z = np.vstack([z_of(x) for x in views])
    two = (np.tile(labels, 2), np.tile(weights, 2))
    expected = exact_oracle.means(z, *two, 4)
    np.testing.assert_allclose(moments.means + BASIS.pivot, expected, atol=tolerance)
    expected = exact_oracle.covariance(z, *two, 4)
    np.testing.assert_allclose(symmetric(moments.covariance()), expected, atol=tolerance)
    np.testing.assert_allclose(moments.weight, np.bincount(*two), atol=tolerance)


def test_printed_moments_are_equations_16_and_17():
    moments = filled(printed()).moments()
    views, labels, weights = data()
    classes = []
    for c in range(4):
        rows = np.vstack([z_of(x[labels == c]) for x in views])
        classes.append((rows, np.tile(weights[labels == c], 2)))
    means, A = paper_oracle.weighted_moments(classes)
    np.testing.assert_allclose(moments.means + BASIS.pivot, means)
    np.testing.assert_allclose(symmetric(moments.covariance()), A, atol=1e-12)
    assert np.linalg.norm(means) < 0.8 * np.linalg.norm(
        filled(exact()).moments().means + BASIS.pivot
    )  # the printed mean shrinks


def test_printed_needs_some_weight():
    _, labels, _ = data()
    everything = np.ones(40, dtype=bool)
    with pytest.raises(InputError, match="too little weight"):
        printed().with_task(labelled(everything, labels, np.zeros(40), np.arange(4)))


def test_batch_centring_depends_on_the_batch_and_whole_tasks_are_exact():
    whole = filled(batch_centred(1000)).moments()
    right = filled(exact()).moments()
    np.testing.assert_allclose(whole.means, right.means)
    np.testing.assert_allclose(symmetric(whole.scatter), symmetric(right.scatter), atol=1e-12)
    small = filled(batch_centred(4)).moments()
    np.testing.assert_allclose(small.means, right.means)
    assert np.abs(symmetric(small.scatter) - symmetric(right.scatter)).max() > 1e-3


@pytest.mark.parametrize("kind", [exact, batch_centred])
def test_a_prior_enters_the_mean_with_its_count(kind):
    prior = np.full((2, 12), 0.1)
    plain = filled(exact()).moments()
    moved = filled(kind(), (prior, 25.0)).moments()
    _, labels, weights = data()
    for c in range(4):
        w = 2 * weights[labels == c].sum()
        expected = (w * plain.means[c] + 25 * 0.1) / (w + 25)
        np.testing.assert_allclose(moved.means[c], expected)
        assert moved.weight[c] == pytest.approx(w + 25)


@pytest.mark.parametrize("kind", [exact, printed, batch_centred])
def test_a_class_without_rows_has_no_mean_and_what_was_known_stays(kind):
    _, labels, weights = data()
    first, later = labels == 0, labels >= 2
    known = kind().with_task(labelled(first, labels[first], weights[first], TASKS[0]))
    before = known.moments()
    means, scatter = before.means.copy(), before.scatter.copy()
    assert np.isnan(means[1]).all()
    more = known.with_task(labelled(later, labels[later], weights[later], TASKS[1]))
    assert len(more.moments().means) == 4
    after = known.moments()
    np.testing.assert_array_equal(after.means, means)
    np.testing.assert_array_equal(after.scatter, scatter)


@pytest.mark.parametrize("kind", [exact, printed, batch_centred])
def test_images_that_are_not_kept_do_not_count(kind):
    _, labels, weights = data()
    rows = labels < 2
    task = labelled(rows, labels[rows], weights[rows], TASKS[0])
    kept = np.arange(int(rows.sum())) % 3 > 0
    some = np.flatnonzero(rows)[kept]
    alone = labelled(some, labels[some], weights[some], TASKS[0])
    a = kind().with_task(replace(task, kept=kept)).moments()
    b = kind().with_task(alone).moments()
    np.testing.assert_array_equal(a.means, b.means)
    np.testing.assert_array_equal(a.scatter, b.scatter)
