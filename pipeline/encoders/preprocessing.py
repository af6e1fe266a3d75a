"""Resize and centre crop an image as a model's own evaluation transform does.

Sizes and offsets are those of timm and open_clip, to the pixel. Bicubic and bilinear resampling of
photos is torch's antialiased uint8 ``interpolate``: 0.43 ms where Pillow takes 2.38 ms (500 x 375 to
a 224 crop, one thread). It is integer arithmetic, so the bytes of a crop depend on the image alone,
and at most 1 of 255 away from Pillow's, which both libraries use (2 in rare pixels of white noise).
Small images, where time does not matter, are left to Pillow and equal the libraries' to the bit.

A `Preprocessing` stops at the uint8 crop. The views are computed on that crop, in [0, 1], and the
normalisation by mean and std comes after them, inside the encoder.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from pipeline.errors import ModelError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

INTERPOLATIONS = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
}
CHOICES = {
    "resize_mode": ("shortest", "longest", "squash"),
    "interpolation": tuple(INTERPOLATIONS),
    "rounding": ("library", "nearest"),
    "orientation": ("exif", "stored"),
}
IN_TORCH = frozenset({"bicubic", "bilinear"})  # torch antialiases no other filter
SMALL_PIXELS = 128 * 128  # images up to this size take Pillow 0.1 ms
CHANNELS = 3
LARGEST_SIDE = 16_384
LARGEST_CROP_PCT = 2.0  # above 1 the image is padded (timm's volo models use 1.15)
# A 1 x 100,000 image whose short side becomes 256 would take 20 GB; beyond this only the crop is
# computed.
MAX_RESIZED_PIXELS = 2**26


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes the (height, width) crop that a model sees."""

    height: int  # of the crop in pixels
    width: int
    crop_pct: float  # part of the scaled image that the crop shows; above 1 the image is padded
    # ``shortest`` scales the short side to size / crop_pct and crops the centre;
    # ``longest`` scales the long side and pads with `fill_color` (timm's "border"); ``squash`` scales both sides
    # without keeping the aspect ratio, and crops the centre
    resize_mode: str
    interpolation: str  # bicubic, bilinear, nearest or lanczos
    mean: tuple[float, ...]  # normalisation of the values in [0, 1], done by the encoder
    std: tuple[float, ...]
    fill_color: tuple[int, ...] = (0, 0, 0)  # colour of the padding, 0 to 255
    # ``library`` rounds the scaled size and the corner of the crop as torchvision, timm and
    # open_clip do. ``nearest`` takes the nearest size and the upper left of two middle corners, to match features
    # made by other code (one pixel of offset moves a cosine by up to 0.03 on small photos)
    rounding: str = "library"
    # ``exif`` turns a photo upright first; ``stored`` takes the pixels as they lie in the file
    orientation: str = "exif"

    def __post_init__(self) -> None:
        """Validate every field; lists become tuples."""
        for name in ("height", "width"):
            _check(_is_int(getattr(self, name), 1, LARGEST_SIDE), name, "a size in pixels", self)
        fits = _is_number(self.crop_pct) and 0 < self.crop_pct <= LARGEST_CROP_PCT
        _check(fits, "crop_pct", "a number in (0, 2]", self)
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            one_of = f"one of {', '.join(choices)}"
            _check(isinstance(value, str) and value in choices, name, one_of, self)
        for name in ("mean", "std", "fill_color"):
            value = getattr(self, name)
            is_triple = isinstance(value, (list, tuple)) and len(value) == CHANNELS
            _check(is_triple and all(map(_is_number, value)), name, "three numbers", self)
            object.__setattr__(self, name, tuple(value))
        _check(min(self.std) > 0, "std", "three numbers above 0", self)
        fits = all(_is_int(level, 0, 255) for level in self.fill_color)
        _check(fits, "fill_color", "three whole numbers in 0..255", self)
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        object.__setattr__(self, "std", tuple(map(float, self.std)))
        object.__setattr__(self, "crop_pct", float(self.crop_pct))

    def crop(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """Resize and centre crop an RGB image.

        Parameters
        ----------
        image : PIL.Image.Image
            An image in mode RGB.

        Returns
        -------
        ndarray of shape (height, width, 3), uint8
        """
        if image.mode != "RGB":
            raise ValueError(f"expected an RGB image, got mode {image.mode}")
        size = self._resized(image.width, image.height)
        left, top = self._corner(*size)
        if size[0] * size[1] > MAX_RESIZED_PIXELS:
            return self._crop_of_giant(image, size, (left, top))
        resized = self._resize(image, size)
        right, bottom = left + self.width, top + self.height
        if min(left, top) >= 0 and right <= size[0] and bottom <= size[1]:
            return np.ascontiguousarray(resized[top:bottom, left:right])
        page = Image.new("RGB", (self.width, self.height), self.fill_color)
        page.paste(Image.fromarray(resized), (-left, -top))
        return np.array(page)

    def _resize(self, image: Image.Image, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """Scale an image to ``size`` (width, height); (h, w, 3) uint8."""
        if size == image.size:
            return np.array(image)
        small = image.width * image.height <= SMALL_PIXELS
        if small or self.interpolation not in IN_TORCH:
            return np.array(image.resize(size, INTERPOLATIONS[self.interpolation]))
        import torch  # here: `referee check` validates preprocessing without it

        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]
        scaled = torch.nn.functional.interpolate(pixels, size[::-1], mode=self.interpolation, antialias=True)
        return scaled[0].permute(1, 2, 0).numpy()

    @property
    def upright(self) -> bool:
        """Whether images are turned as their EXIF orientation says before they are cropped."""
        return self.orientation == "exif"

    def as_attributes(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, for provenance."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }

    def override(self, changes: Mapping[str, Any]) -> Preprocessing:
        """Return a copy with these fields changed; an unknown field is a `ModelError`."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise ModelError(f"preprocessing.{name}: no such field{did_you_mean(str(name), known)}")
        return dataclasses.replace(self, **changes)

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Size to scale a (width, height) image to, rounded as the libraries round it."""
        scaled_width = math.floor(self.width / self.crop_pct)
        scaled_height = math.floor(self.height / self.crop_pct)
        if self.resize_mode == "squash":
            return scaled_width, scaled_height
        square = scaled_width == scaled_height
        if self.resize_mode == "shortest" and square and self.rounding == "library":
            side = scaled_width  # torchvision truncates the long side ...
            if width <= height:
                return side, int(side * height / width)
            return int(side * width / height), side
        pick = min if self.resize_mode == "shortest" else max
        # ... timm and open_clip round it
        ratio = pick(width / scaled_width, height / scaled_height)
        return max(1, round(width / ratio)), max(1, round(height / ratio))

    def _corner(self, new_width: int, new_height: int) -> tuple[int, int]:
        """Where the centre crop of a scaled image starts."""
        if self.rounding == "nearest":
            return (new_width - self.width) // 2, (new_height - self.height) // 2
        return _offset(new_width, self.width), _offset(new_height, self.height)

    def _crop_of_giant(
        self, image: Image.Image, size: tuple[int, int], corner: tuple[int, int]
    ) -> npt.NDArray[np.uint8]:
        """Resample only what the crop shows: bounded memory, a few grey levels off at the edges."""
        across, down = image.width / size[0], image.height / size[1]
        left, top = corner
        box = (
            max(0.0, left * across),
            max(0.0, top * down),
            min(float(image.width), (left + self.width) * across),
            min(float(image.height), (top + self.height) * down),
        )
        resampling = INTERPOLATIONS[self.interpolation]
        return np.array(image.resize((self.width, self.height), resampling, box=box))


def _offset(length: int, crop: int) -> int:
    """Where a centre crop starts, rounded as in torchvision; negative where the image is padded."""
    return round((length - crop) / 2) if length >= crop else -((crop - length) // 2)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_int(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check(holds: bool, name: str, expected: str, preprocessing: Preprocessing) -> None:
    if not holds:
        raise ModelError(f"preprocessing.{name}: expected {expected}, got {getattr(preprocessing, name)!r}")
