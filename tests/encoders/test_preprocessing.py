"""Our crop against timm's and open_clip's own evaluation transforms: the same pixels, grey levels at most 1 away.

Bicubic and bilinear resampling is torch's, the libraries' is Pillow's. Both scale along the width and
then along the height, except Pillow from 13 on where the height shrinks more: values between the two
passes are clipped to 0..255, so on white noise the order shows. The oracle therefore scales in two
calls, width first.
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


def make(height=32, width=32, **changes):
    usual = Preprocessing(32, 32, 0.875, "shortest", "bicubic", HALF, HALF)
    return usual.override({"height": height, "width": width, **changes})


@pytest.fixture
def _width_first(monkeypatch):
    """Have Pillow scale in two passes, along the width first, as torch does."""
    resize = Image.Image.resize
    smooth = (Image.Resampling.BICUBIC, Image.Resampling.BILINEAR)

    def two_passes(image, size, resample, *rest):
        if resample in smooth:
            image = resize(image, (size[0], image.height), resample)
        return resize(image, size, resample, *rest)

    monkeypatch.setattr(Image.Image, "resize", two_passes)


def close(ours, theirs):
    """Compare (h, w, 3) uint8: 1 of 255, and on white noise 2 for a pixel in a thousand."""
    difference = np.abs(ours.astype(int) - theirs.astype(int))
    return ours.shape == theirs.shape and difference.max() <= 2 and (difference > 1).mean() < 1e-3


def as_array(tensor):
    return tensor.permute(1, 2, 0).numpy()


MODES = {"center": "shortest", "squash": "squash", "border": "longest"}
SHAPES = [(32, 32, 1.0), (32, 32, 0.875), (32, 32, 1.15), (24, 40, 0.9)]


@pytest.mark.usefixtures("_width_first")
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "nearest", "lanczos"])
@pytest.mark.parametrize(("height", "width", "crop_pct"), SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_crop_is_that_of_timm(height, width, crop_pct, interpolation, mode):
    mean = (0.1, 0.5, 0.9)
    options = {"crop_pct": crop_pct, "interpolation": interpolation}
    transform = create_transform((3, height, width), crop_mode=mode, mean=mean, normalize=False, **options)
    if mode == "center" and height != width:
        options["interpolation"] = "bilinear"  # timm forgets it where the crop is not square
    fill = tuple(round(255 * level) for level in mean) if mode == "border" else (0, 0, 0)
    ours = make(height, width, resize_mode=MODES[mode], fill_color=fill, **options)
    for image in (noise(*size) for size in SIZES):
        assert close(ours.crop(image), as_array(transform(image))), image.size


@pytest.mark.usefixtures("_width_first")
@pytest.mark.parametrize("mode", MODES.values())
@pytest.mark.parametrize("shape", [(32, 32), (24, 40)])
def test_crop_is_that_of_open_clip(mode, shape):
    transform = open_clip.image_transform(
        shape, is_train=False, mean=(0,) * 3, std=(1,) * 3, resize_mode=mode, interpolation="bicubic"
    )
    ours = make(*shape, crop_pct=1.0, resize_mode=mode)
    for image in (noise(*size) for size in SIZES):
        assert close(ours.crop(image), as_array(transform(image).mul(255).round())), image.size


def test_small_images_are_scaled_to_the_bit_as_timm_does():
    transform = create_transform((3, 48, 48), interpolation="bicubic", normalize=False)
    for image in (noise(*size) for size in SMALL):
        assert np.array_equal(make(48, 48).crop(image), as_array(transform(image))), image.size


def test_a_crop_does_not_depend_on_threads():
    image = noise(300, 200)
    alone = make().crop(image)
    torch.set_num_threads(3)
    assert np.array_equal(make().crop(image), alone)
    with ThreadPoolExecutor(3) as threads:
        assert all(np.array_equal(crop, alone) for crop in threads.map(make().crop, [image] * 9))


def test_extreme_aspect_ratio_takes_little_memory(monkeypatch):
    """Beyond the limit only the crop is computed: the same picture, rounding and edges apart."""
    image = noise(3, 400)
    whole = make().crop(image).astype(int)
    monkeypatch.setattr(module, "MAX_RESIZED_PIXELS", 100)
    part = make().crop(image).astype(int)
    assert np.abs(whole - part).mean() < 0.6  # of white noise; a crop one pixel off gives 17
    monkeypatch.undo()
    assert make(224, 224).crop(noise(1, 60_000)).shape == (224, 224, 3)  # 256 x 15,360,000 whole
    assert make(224, 224, resize_mode="longest").crop(noise(1, 9_000)).shape == (224, 224, 3)


def test_attributes_are_json_and_bring_it_back():
    ours = make(24, 40, mean=[0, 0.5, 1])
    attributes = json.loads(to_json(ours))
    assert Preprocessing(**attributes) == ours
    assert ours.mean == (0.0, 0.5, 1.0)


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
        make(**{field: value})
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("_width_first")
def test_rounding_to_the_nearest_size_and_the_upper_left_corner():
    ours, image = make(224, 224, rounding="nearest"), noise(252, 288)
    # 292.57: torchvision takes 292
    resized = image.resize((256, 293), Image.Resampling.BICUBIC)
    expected = np.asarray(resized.crop((16, 34, 240, 258)))  # 34.5 from the top
    assert close(ours.crop(image), expected)
    assert not close(ours.override({"rounding": "library"}).crop(image), expected)
