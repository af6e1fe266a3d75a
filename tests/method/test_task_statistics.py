from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.method.class_statistics import symmetric
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.rows import LabelledRows
from pipeline.method.task_statistics import LabelledTask, empty_statistics
from pipeline.method.variants import CALIBRATED, PAPER, RELEASED
from reference import class_statistics as oracle

BASIS = draw_basis(6, 12, 1.0, "bandwidth", 0)
TASKS = (np.array([0, 1]), np.array([2, 3]))
EMPTY = {
    "exact": empty_statistics(BASIS, replace(CALIBRATED, arithmetic="float64")),
    "exact float32": empty_statistics(BASIS, CALIBRATED),
    "printed": empty_statistics(BASIS, PAPER),
    "task_centred": empty_statistics(BASIS, replace(RELEASED, divide_scatter=True)),
    "task_centred as rows": empty_statistics(BASIS, RELEASED),
}


def data(seed=0, n=40):
    rng = np.random.default_rng(seed)
    labels = np.sort(np.arange(n) % 4)
    views = {str(k): rng.normal(size=(n, 6)) + np.eye(6)[labels] for k in range(2)}
    return LabelledRows(views, labels, rng.uniform(0.3, 1, n))


def z_of(x):
    return deviations(BASIS, x).astype(np.float64) + BASIS.pivot


def task(rows, classes, prior=None, count=0.0):
    return LabelledTask(BASIS, rows, classes, prior, count)


def after_both_tasks(statistics, prior=None, count=0.0):
    for classes in TASKS:
        rows = data().take(np.flatnonzero(np.isin(data().labels, classes)))
        statistics = statistics.update(task(rows, classes, prior, count))
    return statistics


def covariance(statistics):
    within = statistics.within()
    return symmetric(within.triangle) / within.total


@pytest.mark.parametrize(("kind", "tolerance"), [("exact", 1e-12), ("exact float32", 3e-7)])
def test_exact_statistics_equal_the_oracles(kind, tolerance):
    statistics, rows = after_both_tasks(EMPTY[kind]), data()
    z = np.vstack([z_of(x) for x in rows.views.values()])
    labels_and_weights = (np.tile(rows.labels, 2), np.tile(rows.weights, 2))
    expected = oracle.means(z, *labels_and_weights, 4)
    np.testing.assert_allclose(statistics.means() + BASIS.pivot, expected, atol=tolerance)
    expected = oracle.covariance(z, *labels_and_weights, 4)
    np.testing.assert_allclose(covariance(statistics), expected, atol=tolerance)
    np.testing.assert_allclose(statistics.weight(), np.bincount(*labels_and_weights), atol=tolerance)


def test_printed_statistics_follow_equations_16_and_17():
    statistics, rows = after_both_tasks(EMPTY["printed"]), data()
    classes = []
    for c in range(4):
        members = rows.labels == c
        z = np.vstack([z_of(x[members]) for x in rows.views.values()])
        classes.append((z, np.tile(rows.weights[members], 2)))
    means, A = oracle.weighted_moments(classes)
    np.testing.assert_allclose(statistics.means() + BASIS.pivot, means)
    np.testing.assert_allclose(covariance(statistics), A, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_exact_statistics_do_not_depend_on_batches_or_order(seed, cuts):
    """All classes return in every part, but the prior enters once."""
    prior, rows = np.full((4, 12), 0.1), data(seed)
    whole = EMPTY["exact"].update(task(rows, np.arange(4), prior, 5.0))
    order = np.random.default_rng(seed).permutation(40)
    updated, merged = EMPTY["exact"], EMPTY["exact"]
    for part in np.split(order, sorted(cuts)):
        batch = task(rows.take(part), np.arange(4), prior, 5.0)
        updated = updated.update(batch)
        merged = EMPTY["exact"].update(batch) + merged
    for statistics in (updated, merged):
        # on some processors the last bit of float32 features depends on the number of rows mapped at once
        np.testing.assert_allclose(statistics.means(), whole.means(), atol=1e-7)
        np.testing.assert_allclose(covariance(statistics), covariance(whole), atol=1e-8)
        np.testing.assert_allclose(statistics.weight(), whole.weight())


@pytest.mark.parametrize("kind", EMPTY)
def test_a_class_without_rows_has_no_mean_and_update_does_not_modify_the_old_statistics(kind):
    rows = data()
    first, later = (rows.take(np.flatnonzero(m)) for m in (rows.labels == 0, rows.labels >= 2))
    statistics = EMPTY[kind].update(task(first, TASKS[0]))
    means, right = statistics.means().copy(), np.eye(12)
    solved = statistics.within().solve(right, 1e-6)
    assert np.isnan(means[1]).all()
    updated = statistics.update(task(later, TASKS[1]))
    assert len(updated.means()) == 4
    np.testing.assert_array_equal(statistics.means(), means)
    np.testing.assert_array_equal(statistics.within().solve(right, 1e-6), solved)


def test_merged_statistics_keep_the_priors_of_both():
    halves = [np.flatnonzero(np.isin(data().labels, classes)) for classes in TASKS]
    first, second = (
        EMPTY["exact"].update(task(data().take(rows), classes, np.full((2, 12), float(c)), 2.0))
        for c, (rows, classes) in enumerate(zip(halves, TASKS, strict=True), 1)
    )
    merged = first + second
    np.testing.assert_array_equal(merged.prior_means[:, 0], [1, 1, 2, 2])
    np.testing.assert_array_equal(merged.prior_count, [2, 2, 2, 2])


def test_a_returning_class_has_no_second_warm_start():
    rows = data().take(np.flatnonzero(np.isin(data().labels, TASKS[0])))
    once = EMPTY["task_centred"].update(task(rows, TASKS[0], np.zeros((2, 12)), 25.0))
    twice = once.update(task(rows, TASKS[0], np.ones((2, 12)), 25.0))
    np.testing.assert_allclose(twice.weight() - once.weight(), once.weight() - 25.0)
