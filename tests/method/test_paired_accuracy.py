"""The error of a difference of accuracies, against a naive version and against drawing images again."""

import numpy as np

from pipeline.method.continual_metrics import image_covariance
from reference import paired_accuracy as naive


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
