"""Our crop against timm's and open_clip's own evaluation transforms, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from timm.data import create_transform

from pipeline.encoders import preprocessing as module
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import ModelError

HALF = (0.5, 0.5, 0.5)
SIZES = [(32, 32), (33, 47), (101, 64), (64, 101), (7, 5), (1, 9), (300, 31), (224, 225), (77, 77)]


def noise(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def make(height: int = 32, width: int = 32, **changes: object) -> Preprocessing:
    usual = Preprocessing(height, width, 0.875, "shortest", "bicubic", HALF, HALF)
    return usual.override(changes)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("crop_pct", [1.0, 0.875, 0.9, 1.15])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "nearest", "lanczos"])
@pytest.mark.parametrize("mode", ["center", "squash", "border"])
def test_equals_timm(size: tuple[int, int], crop_pct: float, interpolation: str, mode: str) -> None:
    mean = (0.1, 0.5, 0.9)
    transform = create_transform(
        (3, 32, 32),
        crop_pct=crop_pct,
        crop_mode=mode,
        interpolation=interpolation,
        mean=mean,
        normalize=False,
    )
    ours = make(
        crop_pct=crop_pct,
        interpolation=interpolation,
        resize_mode={"center": "shortest", "squash": "squash", "border": "longest"}[mode],
        fill_color=tuple(round(255 * level) for level in mean) if mode == "border" else (0, 0, 0),
    )
    image = noise(*size)
    assert np.array_equal(ours.crop(image), transform(image).permute(1, 2, 0).numpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["center", "squash", "border"])
def test_equals_timm_where_the_crop_is_not_square(size: tuple[int, int], mode: str) -> None:
    """timm then scales the short side bilinearly, whatever was asked."""
    transform = create_transform(
        (3, 24, 40),
        crop_pct=0.9,
        crop_mode=mode,
        interpolation="bicubic",
        normalize=False,
        mean=HALF,
    )
    ours = make(
        24,
        40,
        crop_pct=0.9,
        interpolation="bilinear" if mode == "center" else "bicubic",
        resize_mode={"center": "shortest", "squash": "squash", "border": "longest"}[mode],
        fill_color=(128, 128, 128) if mode == "border" else (0, 0, 0),
    )
    image = noise(*size)
    assert np.array_equal(ours.crop(image), transform(image).permute(1, 2, 0).numpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("shape", [(32, 32), (24, 40)])
def test_equals_open_clip(size: tuple[int, int], mode: str, shape: tuple[int, int]) -> None:
    mean, std = (0.48, 0.45, 0.40), (0.26, 0.25, 0.27)
    transform = open_clip.image_transform(
        shape, is_train=False, mean=mean, std=std, resize_mode=mode, interpolation="bicubic"
    )
    ours = make(*shape, crop_pct=1.0, resize_mode=mode, mean=mean, std=std)
    image = noise(*size)
    crop = torch.from_numpy(ours.crop(image)).permute(2, 0, 1).float().div(255)
    scaled = (crop - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    assert torch.equal(scaled, transform(image))


def test_extreme_aspect_ratio_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit only the crop is computed: the same picture, rounding and edges apart."""
    image = noise(3, 400)
    whole = make().crop(image).astype(int)
    monkeypatch.setattr(module, "MAX_RESIZED_PIXELS", 100)
    part = make().crop(image).astype(int)
    assert np.abs(whole - part).mean() < 0.6  # of white noise; a crop one pixel off gives 17
    monkeypatch.undo()
    assert make(224, 224).crop(noise(1, 60_000)).shape == (224, 224, 3)  # 256 x 15,360,000 whole
    assert make(224, 224, resize_mode="longest").crop(noise(1, 9_000)).shape == (224, 224, 3)


def test_attributes_are_json_and_bring_it_back() -> None:
    ours = make(24, 40, mean=[0, 0.5, 1])
    attributes = json.loads(json.dumps(ours.as_attributes()))
    assert Preprocessing(**attributes) == ours
    assert ours.mean == (0.0, 0.5, 1.0)


def test_override_names_the_nearest_field() -> None:
    with pytest.raises(ModelError, match=r"preprocessing\.crop_pc: .*did you mean 'crop_pct'"):
        make(crop_pc=1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("height", 0),
        ("height", True),
        ("width", 3.5),
        ("width", 10**9),
        ("crop_pct", 0),
        ("crop_pct", float("nan")),
        ("crop_pct", "1"),
        ("resize_mode", "center"),
        ("interpolation", "cubic"),
        ("mean", [0.5]),
        ("mean", 0.5),
        ("mean", ["a", "b", "c"]),
        ("std", [0.5, 0.0, 0.5]),
        ("std", None),
        ("fill_color", [0, 0, 300]),
        ("fill_color", [0.5, 0, 0]),
    ],
)
def test_bad_values_name_their_field(field: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"^preprocessing\.{field}: expected") as error:
        make(**{field: value})
    assert "\n" not in str(error.value)


def test_only_rgb() -> None:
    with pytest.raises(ValueError, match="RGB"):
        make().crop(Image.new("L", (9, 9)))


def test_rounding_to_the_nearest_size_and_the_upper_left_corner() -> None:
    ours = Preprocessing(
        224, 224, 0.875, "shortest", "bicubic", (0.5,) * 3, (0.5,) * 3, rounding="nearest"
    )
    noise = np.random.default_rng(0).integers(0, 256, (288, 252, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    resized = image.resize((256, 293), Image.Resampling.BICUBIC)  # 292.57: torchvision takes 292
    expected = np.asarray(resized.crop((16, 34, 240, 258)))  # 34.5 from the top
    assert np.array_equal(ours.crop(image), expected)
    library = ours.override({"rounding": "library"})
    assert not np.array_equal(library.crop(image), expected)
    with pytest.raises(
        ModelError, match=r"preprocessing.rounding: expected one of library, nearest"
    ):
        ours.override({"rounding": "down"})


def test_orientation_is_a_choice() -> None:
    ours = Preprocessing(8, 8, 1.0, "shortest", "bicubic", (0.5,) * 3, (0.5,) * 3)
    assert ours.upright
    assert not ours.override({"orientation": "stored"}).upright
    with pytest.raises(
        ModelError, match=r"preprocessing.orientation: expected one of exif, stored"
    ):
        ours.override({"orientation": "up"})
