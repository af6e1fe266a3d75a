"""The noise of an image: normal, its own, the same everywhere."""

import hashlib

import numpy as np
import torch

from pipeline.method.frequency_views import draw_words, normal, quantiles
from reference.frequency_views import normal_values

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
