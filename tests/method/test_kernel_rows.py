"""The kernel's input rows, with and without CLIP, and features that are cached or recomputed."""

import itertools
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method import kernel_rows as module
from pipeline.method.kernel_directions import reduced
from pipeline.method.kernel_rows import KeptFeatures, SweptFeatures, joined_rows, joint_rows, kernel_rows
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.rows import UnlabelledRows
from pipeline.method.variants import CALIBRATED


def rows(seed, n=40, d=6, d_clip=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d_clip))


@pytest.fixture
def basis():
    return draw_basis(6, 30, 0.3, "gamma", 0, d_clip=4)


def test_with_clip_weight_0_or_without_clip_rows_the_kernel_uses_vision_alone(basis):
    g, c = rows(1)
    plain = deviations(draw_basis(6, 30, 0.3, "gamma", 0), g)
    for clip, clip_weight in ((c, 0.0), (None, 0.5)):
        features = joined_rows(basis, {"original": g}, clip, clip_weight)
        np.testing.assert_array_equal(features.deviations("original", np.arange(40)), plain)


def test_a_nested_basis_keeps_the_clip_part_and_a_basis_without_one_is_refused(basis):
    np.testing.assert_array_equal(basis.nested(7).joint().omega, basis.joint().omega[:, :7])
    with pytest.raises(InputError, match="dvc repro"):
        draw_basis(6, 30, 0.3, "gamma", 0).joint()


def test_joint_rows_of_different_images_are_refused_and_take_selects_rows():
    g, c = rows(2)
    with pytest.raises(InputError, match="40 vision and 39 CLIP rows"):
        joint_rows(g, c[:39], 0.5)
    index, joint = np.array([3, 5, 30]), joint_rows(g, c, 0.5)
    np.testing.assert_array_equal(joint.take(index)[np.arange(3)], joint[index])
    assert joint.shape == (40, 10)


@pytest.mark.parametrize("kept", [True, False])
def test_features_are_the_same_cached_or_recomputed(monkeypatch, kept, basis):
    monkeypatch.setattr(module, "KEPT_BYTES", 10**9 if kept else 0)
    g, c = rows(3)
    features, index = joined_rows(basis, {"original": g}, c, 0.5), np.array([1, 4, 8])
    view, inputs = features.views["original"], joint_rows(g, c, 0.5)
    assert isinstance(view, module.KeptFeatures) == kept
    expected = deviations(basis.joint(), inputs[np.arange(40)])
    np.testing.assert_allclose(features.deviations("original", index), expected[index], atol=1e-7)
    backwards = np.arange(40)[::-1]
    np.testing.assert_allclose(features.deviations("original", backwards), expected[backwards], atol=1e-7)
    part = view.take(np.arange(3, 20))
    found = module.row_deviations(features.basis, part, index)
    np.testing.assert_allclose(found, expected[index + 3], atol=1e-7)
    unpickled = pickle.loads(pickle.dumps(part))  # the input rows only
    np.testing.assert_array_equal(unpickled[index], inputs[index + 3])


def test_cached_features_are_never_used_for_other_images(basis):
    cache = {}
    for seed in range(3):  # if freed, the first images could share an address with the second
        images = UnlabelledRows({"original": rows(seed)[0]}, np.zeros((40, 2)))
        features = kernel_rows(basis, images, 0.0, lambda key, make: cache.setdefault(key, make()))
        expected = deviations(basis, rows(seed)[0])
        np.testing.assert_array_equal(features.deviations("original", np.arange(40)), expected)
        del images


def test_threads_compute_features_once(basis):
    calls = []

    def slow(basis, rows):
        calls.append(time.sleep(0.05))
        return deviations(basis, rows)

    features = KeptFeatures(basis, rows(0)[0], compute=slow)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(features.deviations, [np.arange(3), np.arange(4)]))
    assert len(calls) == 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_features_of_a_sweep_equal_those_of_each_basis_in_any_order(order):
    x = np.random.default_rng(0).normal(size=(20, 10)).astype(np.float32)
    widest = draw_basis(10, 64, 1e-4, "gamma", 0)
    bases = [draw_basis(10, D, gamma, "gamma", 0) for D, gamma in ((30, 1e-4), (64, 1e-4), (47, 1e-5))]
    narrow = [reduced(basis, CALIBRATED) for basis in bases]
    assert [basis.width for basis in narrow] == [11, 11, 11]
    swept = SweptFeatures(widest, (8, 30, 47, 64))
    found = {i: (swept.deviations(narrow[i], x), swept.deviations(bases[i], x)) for i in order}
    for i, pair in found.items():
        for basis, features in zip((narrow[i], bases[i]), pair, strict=True):
            expected = deviations(basis, x)
            np.testing.assert_allclose(features, expected, atol=2e-6 * np.abs(expected).max())
    in_order = SweptFeatures(widest, (8, 30, 47, 64))
    for i in range(3):  # bit by bit
        np.testing.assert_array_equal(in_order.deviations(narrow[i], x), found[i][0])
