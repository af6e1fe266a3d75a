"""The classifiers without training: CLIP zero-shot (1) and the nearest class mean."""

import numpy as np

from pipeline.method.zero_shot import class_means, clip_probabilities, cosine_rows, cosines, nearest_mean, softmax
from reference import nearest_class_mean, zero_shot


def test_clip_probabilities_equal_the_oracles_at_any_scale():
    rng = np.random.default_rng(0)
    images, texts, classes = rng.normal(size=(7, 5)), rng.normal(size=(4, 5)), np.array([1, 3])
    for scale in (1.0, 100.0):
        expected = zero_shot.zero_shot(images, texts, scale)
        of_two = zero_shot.zero_shot(images, texts[classes], scale)
        for cosine in (cosines(images, texts), cosine_rows(images, texts)):
            np.testing.assert_allclose(clip_probabilities(cosine, scale, np.arange(4)), expected)
            np.testing.assert_allclose(clip_probabilities(cosine, scale, classes), of_two)
            found = clip_probabilities(cosine, scale, classes, all_classes=True)
            np.testing.assert_array_equal(found, softmax(scale * cosine[np.arange(7)])[:, classes])
    rows = cosine_rows(images, texts).take(np.array([1, 6]))
    assert rows.shape == (2, 4)
    np.testing.assert_allclose(rows[np.arange(2)], cosines(images, texts)[[1, 6]])


def test_nearest_means_equal_the_oracles_and_empty_classes_are_never_nearest():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(40) % 4)
    rows = rng.normal(size=(40, 6)) + 2 * np.eye(6)[labels]
    expected = nearest_class_mean.means([(range(4), rows, labels, np.ones(40))])
    means = class_means(rows, labels, 5)
    np.testing.assert_allclose(means[:4], expected)
    assert np.isnan(means[4]).all()
    np.testing.assert_array_equal(nearest_mean(rows, means), nearest_class_mean.predict(rows, expected))
