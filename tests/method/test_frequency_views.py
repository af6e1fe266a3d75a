"""Views (15): agreement with PyWavelets, independence of the batch, documented noise, error messages."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from pipeline.errors import ParamsError
from pipeline.method.frequency_views import ViewSettings, frequency_views, noise_words, quantiles, removed_details
from pipeline.method.views import VIEW_INFO, VIEWS
from pipeline.method.wavelet_transform import largest_level
from reference.frequency_views import standard_noise, views

TOLERANCE = 5e-6  # float32 against the oracle's float64
WAVELETS = ("haar", "db2", "sym4", "bior3.5", "coif1")
SIZES = ((88, 96), (91, 77), (32, 32), (45, 64), (224, 224), (17, 9), (2, 3))


@pytest.fixture(autouse=True)
def _one_thread():
    """Use one thread, as the embed stage does; two threads on a busy machine take ten times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def photos(n, c, h, w, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((n, c, h, w), dtype=np.float32))


def digests(n):
    return [hashlib.sha256(bytes([i])).digest() for i in range(n)]


def generator(seed, key):
    """Return the documented bit generator of an image."""
    return np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "big"), spawn_key=(seed,)))


def assert_same_bits(found, expected):
    for view in found:
        assert found[view].numpy().tobytes() == expected[view].numpy().tobytes(), view


@pytest.mark.parametrize("noise", ["matched", "unit", 0.1])
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("wavelet", WAVELETS)
def test_views_equal_those_of_pywavelets(wavelet, level, noise):
    for h, w in SIZES:
        if level > largest_level((h, w), wavelet):
            continue
        images, keys = photos(2, 3, h, w), digests(2)
        images[1].round_()  # black and white, with the strongest possible edges
        computed = frequency_views(images, VIEWS, ViewSettings(wavelet, level, noise, seed=5), keys)
        drawn = [standard_noise(generator(5, key), 3, (h, w), wavelet, level) for key in keys]
        scale = 1.0 if noise == "unit" else noise
        zeros, rand = views(images.numpy(), wavelet, level, scale, drawn)
        assert computed["original"] is images
        for view, expected in (("zeros", zeros), ("rand", rand)):
            np.testing.assert_allclose(computed[view].numpy(), expected, atol=TOLERANCE, err_msg=view)
            assert computed[view].dtype == torch.float32
            assert computed[view].is_contiguous()
            assert 0 <= computed[view].min() <= computed[view].max() <= 1


@pytest.mark.parametrize("wavelet", ["haar", "bior3.5", "db4"])
@pytest.mark.parametrize(("channels", "size"), [(1, (37, 51)), (3, (32, 32)), (3, (96, 64))])
def test_views_have_the_same_bits_in_every_batch_and_thread(wavelet, channels, size):
    images, keys, settings = photos(7, channels, *size), digests(7), ViewSettings(wavelet)
    expected = frequency_views(images, VIEWS, settings, keys)

    def views_of(rows):
        return frequency_views(images[rows], VIEWS, settings, [keys[row] for row in rows])

    with ThreadPoolExecutor(4) as threads:
        batches = [*([i] for i in range(7)), [5, 2], [6, 5, 4, 3, 2, 1, 0]]
        for rows, computed in zip(batches, threads.map(views_of, batches), strict=True):
            assert_same_bits(computed, {view: expected[view][rows] for view in VIEWS})


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_noise_depends_on_seed_and_digest_and_can_be_drawn_beforehand(wavelet):
    images, keys, different = photos(1, 3, 16, 16).expand(2, -1, -1, -1), digests(2), set()
    for seed in (0, 1, 2**40):
        settings = ViewSettings(wavelet, seed=seed)
        rand = frequency_views(images, ("rand",), settings, keys)
        different |= {image.numpy().tobytes() for image in rand["rand"]}
        words = torch.from_numpy(noise_words(images.shape, settings, keys))
        assert_same_bits(frequency_views(images, ("rand",), settings, keys, words), rand)
    assert len(different) == 6


def test_removed_is_the_difference_if_nothing_clips():
    images = 0.3 + 0.4 * photos(2, 3, 20, 21)
    zeros = frequency_views(images, ("zeros",), ViewSettings(), digests(2))["zeros"]
    torch.testing.assert_close(removed_details(images, ViewSettings()), images - zeros)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ViewSettings(level=6), "32×48 pixels (height × width); the largest level is 5"),
        (ViewSettings("db38"), "the largest level is 0: choose a shorter wavelet"),
    ],
)
def test_a_wavelet_or_level_too_large_for_the_image_is_refused(settings, message):
    with pytest.raises(ParamsError) as raised:
        frequency_views(photos(1, 3, 32, 48), ("rand",), settings, digests(1))
    assert message in str(raised.value)


def test_the_bits_of_the_noise_do_not_change_between_versions():
    """Shared embeddings depend on them: any change here changes every `rand` view."""
    words = noise_words((1, 2, 4), ViewSettings(), [bytes(32)])
    assert words.tolist() == [[30446, -12961, 23295, -3740, 21910, 359]]
    assert hashlib.sha256(quantiles(torch.device("cpu")).numpy().tobytes()).hexdigest()[:16] == "8babbcaf96568f10"


def test_every_view_has_a_description():
    assert tuple(VIEW_INFO) == VIEWS
