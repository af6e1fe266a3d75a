"""Resize and centre crop, as a model's own evaluation transform does it, to the bit.

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

from pipeline.encoders.resample import crop_of_resized
from pipeline.errors import ModelError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

RESIZE_MODES = ("shortest", "longest", "squash")
ROUNDINGS = ("library", "nearest")
ORIENTATIONS = ("exif", "stored")
INTERPOLATIONS = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
}
CHANNELS = 3
LARGEST_SIDE = 16_384
LARGEST_CROP_PCT = 2.0  # above 1 the image is padded (timm's volo models use 1.15)
# A 1 x 100,000 image whose short side becomes 256 would take 20 GB; beyond this only the crop is
# computed.
MAX_RESIZED_PIXELS = 2**26


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes the (height, width) crop that a model sees.

    ``resize_mode``: ``shortest`` scales the short side to size/crop_pct and crops the centre;
    ``longest`` scales the long side and pads with ``fill_color`` (timm's "border"); ``squash``
    scales both sides, aspect ratio lost, and crops the centre.

    ``rounding``: ``library`` rounds the scaled size and the crop's corner as torchvision, timm and
    open_clip do, to the bit; ``nearest`` takes the nearest size and the upper left of two middle
    corners, to match features made by other code (one pixel of offset moves a cosine by up to 0.03
    on small photos). ``orientation``: ``exif`` turns a photo upright before all this; ``stored``
    takes the pixels as they lie in the file, again to match features made by other code.
    """

    height: int
    width: int
    crop_pct: float
    resize_mode: str
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fill_color: tuple[int, ...] = (0, 0, 0)
    rounding: str = "library"
    orientation: str = "exif"

    def __post_init__(self) -> None:
        """Validate every field; lists become tuples."""
        for name in ("height", "width"):
            _check(_is_int(getattr(self, name), 1, LARGEST_SIDE), name, "a size in pixels", self)
        _check(
            _is_number(self.crop_pct) and 0 < self.crop_pct <= LARGEST_CROP_PCT,
            "crop_pct",
            "a number in (0, 2]",
            self,
        )
        _check_choice("resize_mode", self.resize_mode, RESIZE_MODES)
        _check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        _check_choice("rounding", self.rounding, ROUNDINGS)
        _check_choice("orientation", self.orientation, ORIENTATIONS)
        for name in ("mean", "std", "fill_color"):
            value = getattr(self, name)
            is_triple = isinstance(value, (list, tuple)) and len(value) == CHANNELS
            _check(is_triple and all(map(_is_number, value)), name, "three numbers", self)
            object.__setattr__(self, name, tuple(value))
        _check(min(self.std) > 0, "std", "three numbers above 0", self)
        _check(
            all(_is_int(level, 0, 255) for level in self.fill_color),
            "fill_color",
            "three whole numbers in 0..255",
            self,
        )
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        object.__setattr__(self, "std", tuple(map(float, self.std)))
        object.__setattr__(self, "crop_pct", float(self.crop_pct))

    def crop(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """Resize and centre crop an RGB ``image`` to a uint8 array of shape (height, width, 3)."""
        if image.mode != "RGB":
            raise ValueError(f"expected an RGB image, got mode {image.mode}")
        resampling = INTERPOLATIONS[self.interpolation]
        new_width, new_height = self._resized(image.width, image.height)
        if new_width * new_height > MAX_RESIZED_PIXELS:
            return self._crop_of_giant(image, new_width, new_height, resampling)
        left, top = self._corner(new_width, new_height)
        crop = crop_of_resized(
            image,
            (new_width, new_height),
            (left, top),
            (self.width, self.height),
            self.interpolation,
        )
        if crop is not None:
            return crop
        resized = image.resize((new_width, new_height), resampling)
        page = Image.new("RGB", (self.width, self.height), self.fill_color)
        page.paste(resized, (-left, -top))
        return np.array(page, dtype=np.uint8)

    @property
    def upright(self) -> bool:
        """Whether images are turned as their EXIF orientation says before they are cropped."""
        return self.orientation == "exif"

    def as_attributes(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, for provenance."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
        }

    def override(self, changes: Mapping[str, Any]) -> Preprocessing:
        """Return a copy with these fields changed; an unknown field is a `ModelError`."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise ModelError(
                    f"preprocessing.{name}: no such field{did_you_mean(str(name), known)}"
                )
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
        ratio = pick(
            width / scaled_width, height / scaled_height
        )  # ... timm and open_clip round it
        return max(1, round(width / ratio)), max(1, round(height / ratio))

    def _corner(self, new_width: int, new_height: int) -> tuple[int, int]:
        """Where the centre crop of a scaled image starts."""
        if self.rounding == "nearest":
            return (new_width - self.width) // 2, (new_height - self.height) // 2
        return _offset(new_width, self.width), _offset(new_height, self.height)

    def _crop_of_giant(
        self, image: Image.Image, new_width: int, new_height: int, resampling: Image.Resampling
    ) -> npt.NDArray[np.uint8]:
        """Resample only what the crop shows: bounded memory, a few grey levels off at the edges."""
        across, down = image.width / new_width, image.height / new_height
        left, top = self._corner(new_width, new_height)
        box = (
            max(0.0, left * across),
            max(0.0, top * down),
            min(float(image.width), (left + self.width) * across),
            min(float(image.height), (top + self.height) * down),
        )
        return np.array(
            image.resize((self.width, self.height), resampling, box=box), dtype=np.uint8
        )


def _offset(length: int, crop: int) -> int:
    """Where a centre crop starts, rounded as in torchvision; negative where the image is padded."""
    return round((length - crop) / 2) if length >= crop else -((crop - length) // 2)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_int(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check(holds: bool, name: str, wanted: str, preprocessing: Preprocessing) -> None:
    if not holds:
        raise ModelError(
            f"preprocessing.{name}: expected {wanted}, got {getattr(preprocessing, name)!r}"
        )


def _check_choice(
    name: str, value: object, choices: Mapping[str, object] | tuple[str, ...]
) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ModelError(
            f"preprocessing.{name}: expected one of {', '.join(choices)}, got {value!r}"
        )
