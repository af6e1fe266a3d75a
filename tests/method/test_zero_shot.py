import numpy as np

from pipeline.method.zero_shot import softmax, unit_rows, zero_shot_probabilities
from reference import zero_shot as oracle


def test_agrees_with_the_oracle_at_both_scales():
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(7, 5)), rng.normal(size=(4, 5))
    for scale in (1.0, 100.0):
        expected = oracle.zero_shot(images, texts, scale)
        np.testing.assert_allclose(zero_shot_probabilities(images, texts, scale), expected)


def test_scale_one_is_almost_uniform_and_the_models_own_is_not():
    rng = np.random.default_rng(1)
    images = rng.normal(size=(50, 64)).astype(np.float16)
    texts = rng.normal(size=(10, 64))
    assert zero_shot_probabilities(images, texts, 1.0).max() < 0.2
    assert np.median(zero_shot_probabilities(images, texts, 100.0).max(axis=1)) > 0.9


def test_softmax_does_not_overflow():
    np.testing.assert_allclose(softmax(np.array([[1e4, 0.0]])), [[1.0, 0.0]])


def test_unit_rows_leave_a_zero_row_alone():
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]])
