"""Views (15): agreement with PyWavelets, independence of the batch, the documented noise, messages."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from pipeline.errors import ParamsError
from pipeline.method.frequency_views import ViewSettings, frequency_views, noise_words, quantiles, removed
from pipeline.method.views import ABOUT, VIEWS
from pipeline.method.wavelet_transform import largest_level
from reference.frequency_views import standard_noise, views

ROUNDING = 5e-6  # float32 against the oracle's float64
WAVELETS = ("haar", "db2", "sym4", "bior3.5", "coif1")
SIZES = ((88, 96), (91, 77), (32, 32), (45, 64), (224, 224), (17, 9), (2, 3))


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
        if level > largest_level((h, w), wavelet):
            continue
        images, keys = photos(2, 3, h, w), digests(2)
        images[1].round_()  # black and white: the strongest edges there are
        computed = frequency_views(images, VIEWS, ViewSettings(wavelet, level, noise, seed=5), keys)
        drawn = [standard_noise(generator(5, key), 3, (h, w), wavelet, level) for key in keys]
        scale = 1.0 if noise == "unit" else noise
        zeros, rand = views(images.numpy(), wavelet, level, scale, drawn)
        assert computed["original"] is images
        for view, expected in (("zeros", zeros), ("rand", rand)):
            np.testing.assert_allclose(computed[view].numpy(), expected, atol=ROUNDING, err_msg=view)
            assert computed[view].dtype == torch.float32
            assert computed[view].is_contiguous()
            assert 0 <= computed[view].min() <= computed[view].max() <= 1


@pytest.mark.parametrize("wavelet", ["haar", "bior3.5", "db4"])
@pytest.mark.parametrize(("channels", "size"), [(1, (37, 51)), (3, (32, 32)), (3, (96, 64))])
def test_an_image_has_the_same_bits_in_every_batch_and_thread(wavelet, channels, size):
    images, keys, how = photos(7, channels, *size), digests(7), ViewSettings(wavelet)
    together = frequency_views(images, VIEWS, how, keys)

    def apart(rows):
        return frequency_views(images[rows], VIEWS, how, [keys[row] for row in rows])

    with ThreadPoolExecutor(4) as threads:
        batches = [*([i] for i in range(7)), [5, 2], [6, 5, 4, 3, 2, 1, 0]]
        for rows, computed in zip(batches, threads.map(apart, batches), strict=True):
            assert_same_bits(computed, {view: together[view][rows] for view in VIEWS})


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_noise_follows_seed_and_digest_and_may_be_drawn_beforehand(wavelet):
    images, keys, found = photos(1, 3, 16, 16).expand(2, -1, -1, -1), digests(2), set()
    for seed in (0, 1, 2**40):
        how = ViewSettings(wavelet, seed=seed)
        rand = frequency_views(images, ("rand",), how, keys)
        found |= {one.numpy().tobytes() for one in rand["rand"]}
        words = torch.from_numpy(noise_words(images.shape, how, keys))
        assert_same_bits(frequency_views(images, ("rand",), how, keys, words), rand)
    assert len(found) == 6


def test_removed_is_the_difference_where_nothing_clips():
    images = 0.3 + 0.4 * photos(2, 3, 20, 21)
    zeros = frequency_views(images, ("zeros",), ViewSettings(), digests(2))["zeros"]
    torch.testing.assert_close(removed(images, ViewSettings()), images - zeros)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (ViewSettings(level=6), "32×48 pixels (height × width); the largest level is 5"),
        (ViewSettings("db38"), "the largest level is 0: choose a shorter wavelet"),
    ],
)
def test_what_does_not_fit_the_image_is_refused(how, message):
    with pytest.raises(ParamsError) as refusal:
        frequency_views(photos(1, 3, 32, 48), ("rand",), how, digests(1))
    assert message in str(refusal.value)


def test_the_bits_are_these():
    """What teammates share depends on them: a change here is a change of every `rand` view."""
    words = noise_words((1, 2, 4), ViewSettings(), [bytes(32)])
    assert words.tolist() == [[30446, -12961, 23295, -3740, 21910, 359]]
    assert hashlib.sha256(quantiles(torch.device("cpu")).numpy().tobytes()).hexdigest()[:16] == "8babbcaf96568f10"


def test_every_view_is_described():
    assert tuple(ABOUT) == VIEWS
