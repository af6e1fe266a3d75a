"""What the model sees: the compiled way against the general one, bit for bit, and against the definition."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from pipeline.encoders import normalised_views as module
from pipeline.encoders.native import library
from pipeline.encoders.normalised_views import NormalisedViews
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.method.frequency_views import VIEWS, ViewSettings, frequency_views, noise_words

MEAN, STD = (0.48, 0.45, 0.40), (0.26, 0.25, 0.27)
CPU = torch.device("cpu")
compiled = pytest.mark.skipif(library() is None, reason="there was no compiler here")


def crops(n, h, w, seed=0):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (n, h, w, 3), dtype=np.uint8)
    pixels[: n // 2] = np.where(pixels[: n // 2] < 128, 0, 255)  # black and white: what clips most
    return torch.from_numpy(pixels), [hashlib.sha256(bytes([i])).digest() for i in range(n)]


def maker(h, w, settings):
    how = Preprocessing(h, w, 1.0, "shortest", "bicubic", MEAN, STD)
    return NormalisedViews(how, settings, CPU)


def words_of(h, w, settings, keys):
    return torch.from_numpy(noise_words((3, h, w), settings, keys))


def bits(made):
    return {view: images.contiguous().numpy().tobytes() for view, images in made.items()}


@compiled
@pytest.mark.parametrize("noise", ["matched", "unit", 0.05, 0.0])
@pytest.mark.parametrize("size", [(2, 2), (4, 6), (32, 32), (30, 18), (224, 224), (98, 336)])
def test_compiled_code_has_the_bits_of_torch(size, noise):
    settings = ViewSettings(noise=noise, seed=3)
    pixels, keys = crops(6, *size)
    words = words_of(*size, settings, keys)
    views = maker(*size, settings)
    fast = views._by_compiled_code(pixels, VIEWS, words)
    assert bits(fast) == bits(views._by_torch(pixels, keys, VIEWS, words))
    assert bits(views(pixels, keys, VIEWS, words)) == bits(fast)
    for view in VIEWS:  # alone as among others
        alone = views._by_compiled_code(pixels[4:5], (view,), words[4:5])
        assert bits(alone)[view] == fast[view][4:5].numpy().tobytes()


def test_normalised_views_are_the_views_normalised():
    settings = ViewSettings()
    pixels, keys = crops(3, 32, 24)
    words = words_of(32, 24, settings, keys)
    made = maker(32, 24, settings)(pixels, keys, VIEWS, words)
    images = pixels.permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(levels).view(1, 3, 1, 1) for levels in (MEAN, STD))
    for view, expected in frequency_views(images, VIEWS, settings, keys).items():
        assert torch.equal(made[view], (expected - mean) / std)


@compiled
def test_threads_do_not_write_over_each_other():
    settings = ViewSettings()
    pixels, keys = crops(12, 64, 64)
    words = words_of(64, 64, settings, keys)
    views = maker(64, 64, settings)
    together = {v: made.clone() for v, made in views(pixels, keys, VIEWS, words).items()}

    def alone(i):
        made = views(pixels[[i]], [keys[i]], VIEWS, words[[i]])
        return all(torch.equal(made[view], together[view][[i]]) for view in VIEWS)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(alone, list(range(12)) * 20))


@compiled
@pytest.mark.parametrize(
    ("settings", "size", "expected"),
    [
        (ViewSettings(), (32, 32), True),
        (ViewSettings("db1"), (32, 32), True),
        (ViewSettings(level=2), (32, 32), False),
        (ViewSettings("db2"), (32, 32), False),
        (ViewSettings(), (31, 32), False),
        (ViewSettings(), (32, 31), False),
    ],
)
def test_only_what_was_compiled_is_left_to_it(settings, size, expected):
    views = maker(*size, settings)
    assert (views._compiled is not None) == expected
    pixels, keys = crops(2, *size)
    made = views(pixels, keys, VIEWS, words_of(*size, settings, keys))
    assert {tuple(images.shape) for images in made.values()} == {(2, 3, *size)}


def test_without_a_compiler_the_bits_are_the_same(monkeypatch):
    settings = ViewSettings()
    pixels, keys = crops(4, 48, 48)
    words = words_of(48, 48, settings, keys)
    here = bits(maker(48, 48, settings)(pixels, keys, VIEWS, words))
    monkeypatch.setattr(module, "library", lambda: None)
    without = maker(48, 48, settings)
    assert without._compiled is None
    assert bits(without(pixels, keys, VIEWS, words)) == here
