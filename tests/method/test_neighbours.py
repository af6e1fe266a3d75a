import numpy as np

from pipeline.method import neighbours
from pipeline.method.neighbours import nearest_neighbours, smoothed


def test_neighbours_are_those_of_the_largest_cosines(monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK_IMAGES", 7)
    x = np.random.default_rng(0).normal(size=(30, 5))
    p = np.random.default_rng(1).dirichlet(np.ones(3), 30)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    expected = []
    for i in range(30):
        others = sorted(set(range(30)) - {i}, key=lambda j: -unit[i] @ unit[j])[:4]
        expected.append(0.5 * p[i] + 0.5 * p[others].mean(axis=0))
    found = smoothed(p, nearest_neighbours(10 * x, 4))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_copies_of_an_image_are_neighbours_and_an_image_alone_has_none():
    copies = np.ones((3, 2))
    assert np.sort(nearest_neighbours(copies, 5)).tolist() == [[1, 2], [0, 2], [0, 1]]
    p = np.array([[0.3, 0.7]])
    for k, n in ((5, 1), (0, 1)):
        np.testing.assert_array_equal(smoothed(p, nearest_neighbours(copies[:n], k)), p)
