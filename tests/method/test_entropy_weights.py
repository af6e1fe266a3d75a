import numpy as np
import pytest

from pipeline.method.entropy_weights import entropy_weights
from pipeline.method.zero_shot import softmax
from reference import fusion as oracle


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_agrees_with_the_oracle(floor):
    p = softmax(3 * np.random.default_rng(0).normal(size=(20, 6)))
    expected = [oracle.weight(row, floor) for row in p.tolist()]
    np.testing.assert_allclose(entropy_weights(p, floor=floor), expected)


def test_a_single_class_is_certain():
    np.testing.assert_array_equal(entropy_weights(np.ones((3, 1))), 1.0)
