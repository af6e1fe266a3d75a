import numpy as np

from pipeline.method.zero_shot import CosineRows, branch_probabilities, clip_probabilities, cosines, softmax
from reference import zero_shot as oracle


def test_clip_probabilities_agree_with_the_oracle_at_both_scales():
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(7, 5)), rng.normal(size=(4, 5))
    for scale in (1.0, 100.0):
        expected = oracle.zero_shot(images, texts, scale)
        for cosine in (cosines(images, texts), CosineRows(images, texts)):
            found = clip_probabilities(cosine, scale, np.arange(4))
            np.testing.assert_allclose(found, expected)


def test_cosine_rows_are_taken_without_being_computed():
    rng = np.random.default_rng(2)
    images, texts, index = rng.normal(size=(7, 5)), rng.normal(size=(4, 5)), np.array([1, 6])
    rows = CosineRows(images, texts)
    assert rows.shape == (7, 4)
    np.testing.assert_allclose(rows.take(index)[np.arange(2)], cosines(images, texts)[index])


def test_softmax_over_seen_classes_or_over_all():
    logits = np.random.default_rng(0).normal(size=(4, 5))
    classes = np.array([1, 3])
    np.testing.assert_allclose(branch_probabilities(logits, classes).sum(axis=1), 1)
    over_all = branch_probabilities(logits, classes, over_all=True)
    np.testing.assert_array_equal(over_all, softmax(logits)[:, [1, 3]])
