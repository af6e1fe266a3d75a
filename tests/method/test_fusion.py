import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.method.fusion import fuse, fusion_weight, gate
from pipeline.method.zero_shot import softmax
from reference import fusion as oracle


def branches(seed, C):
    rng = np.random.default_rng(seed)
    return softmax(3 * rng.normal(size=(8, C))), softmax(rng.normal(size=(8, C)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), C=st.integers(2, 7))
def test_both_kinds_agree_with_the_oracle(seed, C):
    p, q = branches(seed, C)
    for kind, formula in (("max_probability", oracle.ratio), ("margin", oracle.margin_ratio)):
        alphas = [formula(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
        np.testing.assert_allclose(fusion_weight(p, q, kind), alphas)
        rows = zip(p.tolist(), q.tolist(), alphas, strict=True)
        np.testing.assert_allclose(fuse(p, q, kind), [oracle.fused(*row) for row in rows])
        np.testing.assert_allclose(fuse(p, q, kind).sum(axis=1), 1)


def test_margins_are_clamped_and_ties_share():
    sure, unsure = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert fusion_weight(sure, unsure, "margin") == 0.8
    assert fusion_weight(unsure, sure, "margin") == 0.2
    assert fusion_weight(unsure, unsure, "margin") == 0.5
    assert fusion_weight(np.ones((1, 1)), np.ones((1, 1)), "margin") == 0.5


def test_one_branch_alone():
    p, q = branches(0, 3)
    np.testing.assert_array_equal(fuse(p, q, "klda"), p)
    np.testing.assert_array_equal(fuse(p, q, "clip"), q)


def test_the_gate_keeps_what_passes():
    fused = np.array([[0.5, 0.5], [0.1, 0.9]])
    assert gate(fused, 0.0).all()
    np.testing.assert_array_equal(gate(fused, 0.6), [False, True])
