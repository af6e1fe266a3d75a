import numpy as np
import pytest

from pipeline.method import task_features
from pipeline.method.random_fourier_features import deviation, draw_basis, draw_ensemble
from pipeline.method.task_features import TaskFeatures, blocks_of


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("member", [None, 1])
def test_features_are_the_same_kept_or_made_anew(monkeypatch, kept, member):
    monkeypatch.setattr(task_features, "KEPT_BYTES", 10**9 if kept else 0)
    basis = draw_ensemble(5, 8, 1.0, "bandwidth", 0, members=2)
    x = np.random.default_rng(0).normal(size=(9, 5))
    features = TaskFeatures(basis, {"original": x})
    places = np.array([1, 4, 8])
    expected = deviation(basis, x)[places]
    if member is not None:
        expected = expected[:, basis.columns[member]]
    np.testing.assert_allclose(features.of("original", places, member), expected, atol=1e-7)


@pytest.mark.parametrize("kept", [True, False])
def test_nested_features_are_those_of_the_narrow_basis(monkeypatch, kept):
    monkeypatch.setattr(task_features, "KEPT_BYTES", 10**9 if kept else 0)
    basis = draw_basis(5, 40, 1.0, "bandwidth", 0)
    x = np.random.default_rng(0).normal(size=(9, 5))
    narrow = TaskFeatures(basis, {"original": x}).nested(7)
    places = np.array([0, 5])
    expected = deviation(basis.nested(7), x)[places]
    np.testing.assert_allclose(narrow.of("original", places), expected, atol=1e-7)


def test_blocks_cover_every_number_once():
    assert [list(block) for block in blocks_of(5, 2)] == [[0, 1], [2, 3], [4]]
    assert list(blocks_of(0, 2)) == []
