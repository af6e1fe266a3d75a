"""Limits of the fusion and of nearest neighbours; the formulas themselves are held to `calibrated` and `released`."""

import numpy as np

from pipeline.method import fusion
from pipeline.method.fusion import fuse, fusion_weight, nearest_neighbours, smoothed
from reference import calibrated as oracle


def test_margins_are_clamped_ties_share_and_one_branch_may_decide_alone():
    sure, unsure = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert fusion_weight(sure, unsure, "margin") == 0.8
    assert fusion_weight(unsure, sure, "margin") == 0.2
    assert fusion_weight(unsure, unsure, "margin") == 0.5
    assert fusion_weight(np.ones((1, 1)), np.ones((1, 1)), "margin") == 0.5
    np.testing.assert_array_equal(fuse(sure, unsure, "klda"), sure)
    np.testing.assert_array_equal(fuse(sure, unsure, "clip"), unsure)


def test_neighbours_are_those_of_the_largest_cosines(monkeypatch):
    monkeypatch.setattr(fusion, "BLOCK_IMAGES", 7)  # several blocks
    x = np.random.default_rng(0).normal(size=(30, 5))
    p = np.random.default_rng(1).dirichlet(np.ones(3), 30)
    expected = [0.5 * p[i] + 0.5 * p[oracle.neighbours(i, x, 3)].mean(axis=0) for i in range(30)]
    np.testing.assert_allclose(smoothed(p, nearest_neighbours(x, oracle.NEIGHBOURS)), expected, atol=1e-12)


def test_copies_of_an_image_are_neighbours_and_an_image_alone_has_none():
    copies = np.ones((3, 2))
    assert np.sort(nearest_neighbours(copies, 5)).tolist() == [[1, 2], [0, 2], [0, 1]]
    for k in (0, 5):
        assert nearest_neighbours(copies[:1], k).tolist() == [[0]]
