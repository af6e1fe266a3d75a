import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import continual_metrics as metrics
from pipeline.method.continual_metrics import image_covariance
from reference import continual_metrics as oracle
from reference import paired_accuracy as naive


@pytest.fixture
def run():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(60) % 6)
    predictions = [np.where(rng.random(60) < 0.7, labels, rng.integers(0, 6, 60)) for _ in range(3)]
    return predictions, labels, labels // 2


def test_matrix_averages_and_forgetting_are_the_oracles(run):
    a = metrics.accuracy_matrix(*run)
    expected = oracle.matrix(*(np.asarray(v).tolist() for v in run))
    for k in range(3):
        np.testing.assert_allclose(a[k, : k + 1], expected[k][: k + 1])
        assert np.isnan(a[k, k + 1 :]).all()
    averages = [oracle.average(expected, k) for k in range(3)]
    np.testing.assert_allclose(metrics.accuracy_after_each_task(a), averages)
    assert metrics.final_accuracy(a) == pytest.approx(averages[-1])
    assert metrics.average_incremental_accuracy(a) == pytest.approx(np.mean(averages))
    assert metrics.forgetting(a) == pytest.approx(oracle.forgetting(expected))


def test_a_single_task_forgets_nothing():
    assert metrics.forgetting(np.array([[0.5]])) == 0.0


def test_per_class_accuracy():
    predictions, labels = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0])
    np.testing.assert_allclose(metrics.per_class_accuracy(predictions, labels, 3), [2 / 3, 1.0, np.nan])


def test_mistakes_are_named(run):
    predictions, labels, tasks = run
    with pytest.raises(InputError, match="task 3 of 3"):
        metrics.accuracy_matrix(predictions, labels, np.minimum(tasks, 1))


def test_covariance_is_that_of_the_naive_version():
    rng = np.random.default_rng(0)
    images = [np.array([0, 2, 3, 5, 6, 7]), np.array([7, 1, 2, 4, 5])]
    tasks = [np.array([0, 0, 1, 1, 1, 0]), np.array([1, 0, 1, 0, 1])]
    right = [rng.random((3, len(rows))) < 0.7 for rows in images]
    expected = naive.image_covariance(
        [r.astype(int).tolist() for r in right], [t.tolist() for t in tasks], [i.tolist() for i in images]
    )
    np.testing.assert_allclose(image_covariance(right, tasks, images), expected, atol=1e-15)


def test_the_error_is_that_of_drawing_images_again():
    rng = np.random.default_rng(1)
    tasks = np.repeat([0, 1], [300, 100])
    right = (rng.random((2, 400)) < [[0.9], [0.85]]) | (rng.random(400) < 0.5)
    C = image_covariance([right], [tasks], [np.arange(400)])
    error = np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    draws = []
    for _ in range(1000):
        rows = np.concatenate([rng.choice(np.flatnonzero(tasks == t), n) for t, n in ((0, 300), (1, 100))])
        one, other = (naive.final_accuracy(r[rows], tasks) for r in right)
        draws.append(one - other)
    assert abs(np.std(draws) / error - 1) < 0.1
