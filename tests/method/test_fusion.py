"""Edge cases of fusion and nearest neighbours; test_calibrated and test_adaptation test the formulas."""

import numpy as np

from pipeline.method import fusion
from pipeline.method.fusion import fuse, fusion_weight, nearest_neighbours, smoothed
from reference import calibrated as oracle


def test_margins_are_clamped_ties_share_equally_and_one_branch_can_decide_alone():
    certain, uncertain = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert fusion_weight(certain, uncertain, "margin") == 0.8
    assert fusion_weight(uncertain, certain, "margin") == 0.2
    assert fusion_weight(uncertain, uncertain, "margin") == 0.5
    assert fusion_weight(np.ones((1, 1)), np.ones((1, 1)), "margin") == 0.5
    np.testing.assert_array_equal(fuse(certain, uncertain, "klda"), certain)
    np.testing.assert_array_equal(fuse(certain, uncertain, "clip"), uncertain)


def test_neighbours_have_the_largest_cosines(monkeypatch):
    monkeypatch.setattr(fusion, "BLOCK_IMAGES", 7)  # several blocks
    x = np.random.default_rng(0).normal(size=(30, 5))
    p = np.random.default_rng(1).dirichlet(np.ones(3), 30)
    expected = [0.5 * p[i] + 0.5 * p[oracle.neighbours(i, x, 3)].mean(axis=0) for i in range(30)]
    np.testing.assert_allclose(smoothed(p, nearest_neighbours(x, oracle.NEIGHBOURS)), expected, atol=1e-12)


def test_copies_are_neighbours_and_a_single_image_is_its_own():
    copies = np.ones((3, 2))
    assert np.sort(nearest_neighbours(copies, 5)).tolist() == [[1, 2], [0, 2], [0, 1]]
    for k in (0, 5):
        assert nearest_neighbours(copies[:1], k).tolist() == [[0]]
