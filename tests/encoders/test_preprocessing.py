"""Crops equal those of timm's and open_clip's evaluation transforms up to one grey level.

`Preprocessing` resamples by torch, the libraries by Pillow. Both scale along the width and then along the height,
except Pillow 13 and later if the height shrinks more. Values between the two passes are clipped to 0..255, so the order
matters on white noise. The oracle therefore scales in two calls, width first.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from pydantic_core import to_json
from timm.data import create_transform

from pipeline.encoders import preprocessing as module
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import ModelError

HALF = (0.5, 0.5, 0.5)
SMALL = [(32, 32), (33, 47), (101, 64), (7, 5), (1, 9), (128, 128)]  # scaled by Pillow
SIZES = [*SMALL, (300, 61), (61, 300), (500, 375), (224, 225), (129, 128)]


def noise(width, height):
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def preprocessing(height=32, width=32, **changes):
    default = Preprocessing(32, 32, 0.875, "shortest", "bicubic", HALF, HALF)
    return default.override({"height": height, "width": width, **changes})


@pytest.fixture
def _width_first(monkeypatch):
    """Make Pillow scale in two passes, along the width first, like torch."""
    resize = Image.Image.resize
    smooth = (Image.Resampling.BICUBIC, Image.Resampling.BILINEAR)

    def two_passes(image, size, resample, *rest):
        if resample in smooth:
            image = resize(image, (size[0], image.height), resample)
        return resize(image, size, resample, *rest)

    monkeypatch.setattr(Image.Image, "resize", two_passes)


def is_close(crop, expected):
    """Compare crops (h, w, 3) uint8 up to 1 of 255, or 2 for one pixel of white noise in a thousand."""
    difference = np.abs(crop.astype(int) - expected.astype(int))
    return crop.shape == expected.shape and difference.max() <= 2 and (difference > 1).mean() < 1e-3


def as_array(tensor):
    return tensor.permute(1, 2, 0).numpy()


MODES = {"center": "shortest", "squash": "squash", "border": "longest"}
SHAPES = [(32, 32, 1.0), (32, 32, 0.875), (32, 32, 1.15), (24, 40, 0.9)]


@pytest.mark.usefixtures("_width_first")
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "nearest", "lanczos"])
@pytest.mark.parametrize(("height", "width", "crop_pct"), SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_crop_equals_that_of_timm(height, width, crop_pct, interpolation, mode):
    mean = (0.1, 0.5, 0.9)
    options = {"crop_pct": crop_pct, "interpolation": interpolation}
    transform = create_transform((3, height, width), crop_mode=mode, mean=mean, normalize=False, **options)
    if mode == "center" and height != width:
        options["interpolation"] = "bilinear"  # timm ignores it if the crop is not square
    fill = tuple(round(255 * level) for level in mean) if mode == "border" else (0, 0, 0)
    transformed = preprocessing(height, width, resize_mode=MODES[mode], fill_color=fill, **options)
    for image in (noise(*size) for size in SIZES):
        assert is_close(transformed.crop(image), as_array(transform(image))), image.size


@pytest.mark.usefixtures("_width_first")
@pytest.mark.parametrize("mode", MODES.values())
@pytest.mark.parametrize("shape", [(32, 32), (24, 40)])
def test_crop_equals_that_of_open_clip(mode, shape):
    transform = open_clip.image_transform(
        shape, is_train=False, mean=(0,) * 3, std=(1,) * 3, resize_mode=mode, interpolation="bicubic"
    )
    transformed = preprocessing(*shape, crop_pct=1.0, resize_mode=mode)
    for image in (noise(*size) for size in SIZES):
        assert is_close(transformed.crop(image), as_array(transform(image).mul(255).round())), image.size


def test_crops_of_small_images_equal_those_of_timm_to_the_bit():
    transform = create_transform((3, 48, 48), interpolation="bicubic", normalize=False)
    for image in (noise(*size) for size in SMALL):
        assert np.array_equal(preprocessing(48, 48).crop(image), as_array(transform(image))), image.size


def test_a_crop_does_not_depend_on_threads():
    image = noise(300, 200)
    expected = preprocessing().crop(image)
    torch.set_num_threads(3)
    assert np.array_equal(preprocessing().crop(image), expected)
    with ThreadPoolExecutor(3) as threads:
        assert all(np.array_equal(crop, expected) for crop in threads.map(preprocessing().crop, [image] * 9))


def test_extreme_aspect_ratio_takes_little_memory(monkeypatch):
    """Above the limit only the crop is computed, which differs in rounding and at the edges."""
    image = noise(3, 400)
    whole = preprocessing().crop(image).astype(int)
    monkeypatch.setattr(module, "MAX_RESIZED_PIXELS", 100)
    part = preprocessing().crop(image).astype(int)
    assert np.abs(whole - part).mean() < 0.6  # for white noise; a crop one pixel off gives 17
    monkeypatch.undo()
    assert preprocessing(224, 224).crop(noise(1, 60_000)).shape == (224, 224, 3)  # scaled: 256 x 15,360,000
    assert preprocessing(224, 224, resize_mode="longest").crop(noise(1, 9_000)).shape == (224, 224, 3)


def test_preprocessing_survives_a_round_trip_through_json():
    original = preprocessing(24, 40, mean=[0, 0.5, 1])
    assert Preprocessing(**json.loads(to_json(original))) == original
    assert original.mean == (0.0, 0.5, 1.0)


BAD = {
    "height": (0, True),
    "width": (3.5, 10**9),
    "crop_pct": (0, float("nan"), "1"),
    "resize_mode": ("center",),
    "orientation": ("up",),
    "rounding": ("down",),
    "interpolation": ("cubic",),
    "mean": ([0.5], 0.5, ["a", "b", "c"]),
    "std": ([0.5, 0.0, 0.5], None),
    "fill_color": ([0, 0, 300], [0.5, 0, 0]),
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_bad_values_name_their_field(field, value):
    with pytest.raises(ModelError, match=rf"^preprocessing\.{field}: .*, not ") as error:
        preprocessing(**{field: value})
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("_width_first")
def test_nearest_rounding_takes_the_nearest_size_and_the_upper_left_corner():
    nearest, image = preprocessing(224, 224, rounding="nearest"), noise(252, 288)
    resized = image.resize((256, 293), Image.Resampling.BICUBIC)  # 292.57, which torchvision truncates
    expected = np.asarray(resized.crop((16, 34, 240, 258)))  # 34.5 from the top
    assert is_close(nearest.crop(image), expected)
    assert not is_close(nearest.override({"rounding": "library"}).crop(image), expected)
