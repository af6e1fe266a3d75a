"""Views (15): agreement with PyWavelets, properties, independence of the batch, messages."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ParamsError
from pipeline.method import frequency_views as module
from pipeline.method.frequency_views import (
    ViewSettings,
    draw_words,
    frequency_views,
    noise_words,
    normal,
    quantiles,
    removed,
)
from pipeline.method.view_names import VIEWS
from pipeline.method.wavelet_transform import join, matrix_join, matrix_split, split
from reference.frequency_views import normal_values, standard_noise, views

ROUNDING = 5e-6  # float32 against the oracle's float64
WAVELETS = ("haar", "db2", "sym4", "bior3.5", "coif1")
SIZES = ((88, 96), (91, 77), (32, 32), (45, 64), (224, 224))

quick = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def _one_thread():
    """As the embed stage calls it; two threads on a busy machine take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def photos(n, c, h, w, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((n, c, h, w), dtype=np.float32))


def digests(n):
    return [hashlib.sha256(bytes([i])).digest() for i in range(n)]


def generator(seed, key):
    """The documented bits of an image."""
    return np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "big"), spawn_key=(seed,)))


def assert_same_bits(one, other):
    for view in one:
        assert one[view].numpy().tobytes() == other[view].numpy().tobytes(), view


@pytest.mark.parametrize("noise", ["matched", "unit", 0.1])
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("wavelet", WAVELETS)
def test_views_are_those_of_pywavelets(wavelet, level, noise):
    for h, w in SIZES:
        if level > module.largest_level((h, w), wavelet):
            continue
        images, keys = photos(2, 3, h, w), digests(2)
        computed = frequency_views(images, VIEWS, ViewSettings(wavelet, level, noise, seed=5), keys)
        drawn = [standard_noise(generator(5, key), 3, (h, w), wavelet, level) for key in keys]
        scale = 1.0 if noise == "unit" else noise
        zeros, rand = views(images.numpy(), wavelet, level, scale, drawn)
        expected = {"original": images.numpy(), "zeros": zeros, "rand": rand}
        assert computed["original"] is images
        for view in VIEWS:
            np.testing.assert_allclose(computed[view].numpy(), expected[view], atol=ROUNDING, err_msg=view)


@pytest.mark.parametrize("size", [(6, 8), (7, 9), (2, 3), (17, 32), (224, 224)])
def test_haar_by_sums_equals_haar_by_matrices(size):
    images = photos(2, 3, *size)
    low, details = matrix_split(images, "haar")
    torch.testing.assert_close(split(images, "haar"), (low, details))
    for bands in (details, None):
        torch.testing.assert_close(join(low, bands, size, "haar"), matrix_join(low, bands, size, "haar"))
    torch.testing.assert_close(join(low, details, size, "haar"), images)


@pytest.mark.parametrize("wavelet", ["haar", "bior3.5", "db4"])
@pytest.mark.parametrize("size", [(32, 32), (37, 51), (96, 64)])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_has_the_same_bits_in_every_batch(wavelet, size, channels):
    images, keys, how = photos(7, channels, *size), digests(7), ViewSettings(wavelet)
    together = frequency_views(images, VIEWS, how, keys)
    for rows in ([0], [6], [5, 2], [6, 5, 4, 3, 2, 1, 0]):
        apart = frequency_views(images[rows], VIEWS, how, [keys[row] for row in rows])
        assert_same_bits(apart, {view: computed[rows] for view, computed in together.items()})


@pytest.mark.parametrize("wavelet", ["haar", "sym4"])
def test_threads_do_not_disturb_each_other(wavelet):
    images, keys, how = photos(12, 3, 40, 33), digests(12), ViewSettings(wavelet)
    together = frequency_views(images, VIEWS, how, keys)
    with ThreadPoolExecutor(4) as threads:
        apart = threads.map(lambda i: frequency_views(images[[i]], VIEWS, how, [keys[i]]), range(12))
        for i, computed in enumerate(apart):
            assert_same_bits(computed, {view: together[view][[i]] for view in VIEWS})


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_noise_follows_seed_and_digest(wavelet):
    image, (one, other) = photos(1, 3, 16, 16), digests(2)
    rand = {
        (seed, key): frequency_views(image, ("rand",), ViewSettings(wavelet, seed=seed), [key])
        for seed in (0, 1, 2**40)
        for key in (one, other)
    }
    computed = [view["rand"].numpy().tobytes() for view in rand.values()]
    assert len(set(computed)) == len(computed)
    again = frequency_views(image, ("rand",), ViewSettings(wavelet, seed=1), [other])
    assert_same_bits(again, rand[1, other])


def test_words_drawn_beforehand_are_the_same_noise():
    images, keys, how = photos(3, 3, 20, 24), digests(3), ViewSettings("db2", 2, seed=8)
    words = torch.from_numpy(noise_words(images.shape, how, keys))
    assert_same_bits(
        frequency_views(images, ("rand",), how, keys, words), frequency_views(images, ("rand",), how, keys)
    )


@given(
    wavelet=st.sampled_from(WAVELETS),
    size=st.tuples(st.integers(22, 60), st.integers(22, 60)),
    noise=st.sampled_from(("unit", "matched", 0.3)),
    seed=st.integers(0, 99),
)
@quick
def test_views_stay_in_range_and_shape(wavelet, size, noise, seed):
    images = photos(2, 3, *size, seed).round()  # black and white: the strongest edges there are
    computed = frequency_views(images, VIEWS, ViewSettings(wavelet, noise=noise), digests(2))
    for view in computed.values():
        assert view.shape == images.shape
        assert view.dtype == torch.float32
        assert view.is_contiguous()
        assert 0 <= view.min() <= view.max() <= 1


def test_removed_is_the_difference_where_nothing_clips():
    images = 0.3 + 0.4 * photos(2, 3, 20, 21)
    zeros = frequency_views(images, ("zeros",), ViewSettings(), digests(2))["zeros"]
    torch.testing.assert_close(removed(images, ViewSettings()), images - zeros)


@pytest.mark.parametrize(
    ("view", "how", "message"),
    [
        ("rand", ViewSettings(level=6), "32×48 pixels (height × width); the largest level is 5"),
        ("rand", ViewSettings("db38"), "the largest level is 0: choose a shorter wavelet"),
    ],
)
def test_what_does_not_fit_the_image_is_refused(view, how, message):
    with pytest.raises(ParamsError) as refusal:
        frequency_views(photos(1, 3, 32, 48), (view,), how, digests(1))
    assert message in str(refusal.value)


KEYS = [hashlib.sha256(bytes([i])).digest() for i in range(3)]
EVERY_WORD = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)


def test_every_word_stands_for_a_quantile():
    values = normal(EVERY_WORD).double().numpy()
    np.testing.assert_allclose(values, normal_values(), rtol=1e-7)
    assert np.array_equal(values, -values[::-1])
    assert (np.diff(values) > 0).all()
    assert abs(np.mean(values**2) - 1) < 1e-7
    assert 4.1 < values.max() < 4.4


def test_an_image_has_its_own_noise_in_every_batch():
    together = draw_words(5, KEYS, 1001)
    assert together.dtype == np.int16
    for i, key in enumerate(KEYS):
        assert np.array_equal(draw_words(5, [key], 1001)[0], together[i])
        assert np.array_equal(draw_words(5, [key], 998)[0], together[i, :998])
    assert len({row.tobytes() for row in together}) == 3
    assert not np.array_equal(draw_words(6, KEYS, 1001), together)
    assert draw_words(0, [], 7).shape == (0, 7)


def test_the_bits_are_these():
    """What teammates share depends on them: a change here is a change of every `rand` view."""
    assert draw_words(0, [bytes(32)], 6).tolist() == [[30446, -12961, 23295, -3740, 21910, 359]]
    assert hashlib.sha256(quantiles(torch.device("cpu")).numpy().tobytes()).hexdigest()[:16] == "8babbcaf96568f10"
