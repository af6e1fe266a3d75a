import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ParamsError
from pipeline.method.balancing import balanced
from pipeline.method.zero_shot import softmax


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), C=st.integers(2, 6))
def test_full_strength_gives_equal_shares_and_none_gives_none(seed, C):
    rng = np.random.default_rng(seed)
    p = softmax(rng.normal(size=(40, C)) + 2 * rng.normal(size=C))
    np.testing.assert_allclose(balanced(p, 1.0).mean(axis=0), 1 / C, atol=1e-3)
    assert balanced(p, 0.0) is p
    half = balanced(p, 0.5)
    np.testing.assert_allclose(half.sum(axis=1), 1)
    off = [np.abs(q.mean(axis=0) - 1 / C).max() for q in (p, half, balanced(p, 1.0))]
    assert off[0] >= off[1] >= off[2] - 1e-9


def test_certain_labels_stay():
    p = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(balanced(p, 0.5), p)


def test_a_task_without_images_is_left_alone():
    assert balanced(np.zeros((0, 3)), 1.0).shape == (0, 3)
    with pytest.raises(ParamsError, match="balancing"):
        balanced(np.ones((1, 1)), 2.0)
