"""The compiled crop against Pillow's resize and crop, bit for bit; without it, Pillow does the work."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.encoders import resample
from pipeline.encoders.preprocessing import INTERPOLATIONS, Preprocessing
from pipeline.encoders.resample import crop_of_resized, is_fast, weights_of

compiled = pytest.mark.skipif(not is_fast(), reason="resample.c was not compiled here")
sides = st.integers(1, 400)


def noise(width, height, seed=0):
    """Black, white and everything between: sums that overshoot 0 and 255."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    extreme = rng.random((height, width, 1)) < 0.5
    return Image.fromarray(np.where(extreme, np.where(pixels < 128, 0, 255), pixels).astype("u1"))


def by_pillow(image, resized, corner, crop, interpolation):
    whole = image.resize(resized, INTERPOLATIONS[interpolation])
    left, top = corner
    return np.asarray(whole.crop((left, top, left + crop[0], top + crop[1])))


@compiled
@given(st.data(), sides, sides, sides, sides, st.sampled_from(sorted(resample.FILTERS)))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_part_of_any_scaled_picture_has_pillows_bits(data, w, h, new_w, new_h, interpolation):
    left, top = data.draw(st.integers(0, new_w - 1)), data.draw(st.integers(0, new_h - 1))
    crop = (
        data.draw(st.integers(1, new_w - left)),
        data.draw(st.integers(1, new_h - top)),
    )
    case = (noise(w, h, w + h), (new_w, new_h), (left, top), crop, interpolation)
    assert np.array_equal(crop_of_resized(*case), by_pillow(*case))


@compiled
@pytest.mark.parametrize("interpolation", sorted(resample.FILTERS))
def test_usual_photos_have_pillows_bits(interpolation):
    for size in ((500, 375), (375, 500), (640, 427), (1024, 768), (300, 300), (256, 256)):
        for crop_pct in (0.875, 0.9, 1.0):
            how = Preprocessing(
                224, 224, crop_pct, "shortest", interpolation, (0.5,) * 3, (0.5,) * 3
            )
            resized = how._resized(*size)
            case = (noise(*size), resized, how._corner(*resized), (224, 224), interpolation)
            assert np.array_equal(crop_of_resized(*case), by_pillow(*case))


@compiled
def test_pixels_that_do_not_lie_in_one_piece_are_left_to_pillow():
    image = noise(40, 30)
    assert resample._memory(image) is not None
    Image.core.set_block_size(4096)
    try:
        scattered = noise(400, 300)
    finally:
        Image.core.set_block_size(16 * 1024 * 1024)
    case = ((200, 150), (3, 4), (90, 80), "bicubic")
    assert crop_of_resized(scattered, *case) is None
    assert crop_of_resized(noise(400, 300), *case) is not None


@pytest.mark.parametrize(
    ("corner", "crop", "interpolation"),
    [
        ((-1, 0), (5, 5), "bicubic"),
        ((0, 6), (5, 5), "bicubic"),
        ((0, 0), (5, 5), "lanczos"),
        ((0, 0), (5, 5), "nearest"),
    ],
)
def test_what_it_does_not_know_is_left_to_pillow(corner, crop, interpolation):
    assert crop_of_resized(noise(20, 20), (10, 10), corner, crop, interpolation) is None
    assert weights_of(2**20, 1, 0, 1, "bilinear") is None


@pytest.mark.parametrize("size", [(50, 37), (31, 64), (33, 33)])
def test_without_the_compiled_file_the_crop_is_the_same(size, monkeypatch):
    how = Preprocessing(32, 32, 0.875, "shortest", "bicubic", (0.5,) * 3, (0.5,) * 3)
    here = how.crop(noise(*size))
    monkeypatch.setattr(resample, "library", lambda: None)
    assert crop_of_resized(noise(*size), (36, 36), (2, 2), (32, 32), "bicubic") is None
    assert np.array_equal(how.crop(noise(*size)), here)


def test_coefficients_are_those_of_pillow():
    """Sums to one, and read off Pillow itself: a white pixel on black, scaled, is its weights."""
    for old, new in ((500, 373), (224, 256), (7, 3), (1, 9), (640, 640)):
        found = weights_of(old, new, 0, new, "bicubic")
        assert np.abs(found.weights.sum(axis=1) - 2**22).max() <= found.weights.shape[1]
        line = np.zeros((1, old), np.float32)
        line[0, old // 2] = 1.0
        scaled = np.asarray(Image.fromarray(line).resize((new, 1), Image.Resampling.BICUBIC))[0]
        place = old // 2 - found.first - found.bounds
        inside = (place >= 0) & (place < found.weights.shape[1])
        own = np.where(
            inside, found.weights[np.arange(new), np.where(inside, place, 0)] / 2**22, 0.0
        )
        np.testing.assert_allclose(own, scaled, atol=2**-22)


def test_a_pillow_of_unknown_ways_is_left_alone(monkeypatch):
    """Should a Pillow to come choose otherwise, the crop is slower, not different."""
    monkeypatch.setattr(resample, "_if_it_shrinks_more", lambda old, new: old < new)
    monkeypatch.setattr(resample, "_never", lambda old, new: old > new)
    monkeypatch.setattr(
        resample, "_height_first", functools.cache(resample._height_first.__wrapped__)
    )
    assert crop_of_resized(noise(50, 40), (40, 32), (0, 0), (32, 32), "bicubic") is None
    assert not is_fast()
