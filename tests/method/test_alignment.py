import numpy as np

from pipeline.method.alignment import aligned
from pipeline.method.kernel_lda import Classifier


def test_scores_are_those_of_rows_less_the_shift():
    rng = np.random.default_rng(0)
    W, b, means = rng.normal(size=(6, 4)), rng.normal(size=4), rng.normal(size=(4, 6))
    classes, shares, u = np.array([1, 3]), np.array([0.3, 0.7]), rng.normal(size=(2, 9, 6))
    shift = u.reshape(-1, 6).mean(axis=0) - (0.3 * means[1] + 0.7 * means[3])
    expected = ((u - shift) @ W + b)[..., classes]
    found = aligned((u @ W + b)[..., classes], Classifier(W, b), means, classes, shares)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_task_that_is_shifted_as_a_whole_gets_the_scores_of_one_that_is_not():
    rng = np.random.default_rng(1)
    W, b, means = rng.normal(size=(6, 2)), rng.normal(size=2), rng.normal(size=(2, 6))
    u = rng.normal(size=(3, 9, 6))
    classes, shares, classifier = np.arange(2), np.array([0.5, 0.5]), Classifier(W, b)
    here, there = (
        aligned(rows @ W + b, classifier, means, classes, shares) for rows in (u, u + means[0])
    )
    np.testing.assert_allclose(there, here, atol=1e-12)
