"""Limits of the fusion; the formulas themselves are held to the oracles of `calibrated` and `released`."""

import numpy as np

from pipeline.method.fusion import fuse, fusion_weight, gate


def test_margins_are_clamped_and_ties_share():
    sure, unsure = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert fusion_weight(sure, unsure, "margin") == 0.8
    assert fusion_weight(unsure, sure, "margin") == 0.2
    assert fusion_weight(unsure, unsure, "margin") == 0.5
    assert fusion_weight(np.ones((1, 1)), np.ones((1, 1)), "margin") == 0.5


def test_one_branch_alone():
    p, q = np.random.default_rng(0).dirichlet(np.ones(3), (2, 8))
    np.testing.assert_array_equal(fuse(p, q, "klda"), p)
    np.testing.assert_array_equal(fuse(p, q, "clip"), q)


def test_the_gate_keeps_what_passes():
    fused = np.array([[0.5, 0.5], [0.1, 0.9]])
    assert gate(fused, 0.0).all()
    np.testing.assert_array_equal(gate(fused, 0.6), [False, True])
