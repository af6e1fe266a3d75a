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
