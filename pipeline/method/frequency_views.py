"""Frequency-aware views of images, eq. (15): high frequencies taken away, or replaced by noise.

An image in [0, 1] is wavelet-transformed over ``level`` levels; the deepest LL sub-band is kept;
the detail sub-bands LH, HL, HH of all levels become zeros (view ``zeros``) or normal noise (view
``rand``); the inverse transform is cropped to the image's size and clipped to [0, 1].

The released code draws unit noise from a global generator, so that most pixels of ``rand`` clip.
Here the scale is a setting, and the noise of an image is a function of (seed, sha256 of the image)
alone (`image_noise`): the same whatever the batch, the worker or the order. Its words stand for the
coarsest level first; within a level LH, HL, HH; within those channel, row, column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pipeline.errors import ParamsError
from pipeline.method.image_noise import Words, draw_words, normal
from pipeline.method.wavelet_transform import Transform, detail_shape, largest_level, transform

Size = tuple[int, int]


@dataclass(frozen=True)
class ViewSettings:
    """How views are computed, as `pipeline.params.Views` has checked it."""

    wavelet: str = "haar"  # any discrete wavelet of PyWavelets
    level: int = 1  # number of levels, at least 1
    # standard deviation of the noise of ``rand``: 1, that of the sub-band it replaces (per image and channel), or a
    # number
    noise: Literal["unit", "matched"] | float = "matched"
    seed: int = 0  # seed of the noise


def frequency_views(
    images: Tensor, views: Sequence[str], settings: ViewSettings, keys: Sequence[bytes], words: Tensor | None = None
) -> dict[str, Tensor]:
    """Return views of a batch of images, eq. (15).

    Parameters
    ----------
    images : Tensor of shape (n, c, h, w)
        Floating point in [0, 1], on any device.
    views : sequence of str
        Names among `view_names.VIEWS`.
    keys : sequence of bytes
        The sha256 digests of the n images; only ``rand`` uses them.
    words : Tensor, optional
        What `noise_words` returns for these keys, on the images' device, if it was drawn beforehand.

    Returns
    -------
    dict of str to Tensor of shape (n, c, h, w)
        On the same device. An image's view has the same bits in every batch.
    """
    computed = {"original": images}
    if "zeros" in views:
        computed["zeros"] = _low_pass(images, settings).clamp(0, 1)
    if "rand" in views:
        if words is None:
            words = torch.from_numpy(noise_words(images.shape, settings, keys)).to(images.device)
        computed["rand"] = _with_noise(images, settings, words).clamp(0, 1)
    return {view: computed[view] for view in views}


def noise_words(shape: Sequence[int], settings: ViewSettings, keys: Sequence[bytes]) -> Words:
    """Return the words (n, count) of the noise of ``rand`` for n images of ``shape`` (…, c, h, w)."""
    channels, height, width = shape[-3:]
    sizes = _sizes((height, width), settings)
    count = sum(math.prod(_band_shape(channels, size, settings)) for size in sizes)
    return draw_words(settings.seed, keys, count)


def removed(images: Tensor, settings: ViewSettings) -> Tensor:
    """Return original − zeros before clipping, (n, c, h, w): what view ``zeros`` takes away."""
    return images - _low_pass(images, settings)


def _low_pass(images: Tensor, settings: ViewSettings) -> Tensor:
    """Return the images (n, c, h, w) from their deepest LL alone, not clipped."""
    dwt = transform(settings.wavelet)
    low = images
    sizes = _sizes((images.shape[-2], images.shape[-1]), settings)
    for _ in range(settings.level):
        low = dwt.approximation(low)
    for size in reversed(sizes):  # eq. (15), LH = HL = HH = 0
        low = dwt.from_approximation(low, size)
    return low


def _with_noise(images: Tensor, settings: ViewSettings, words: Tensor) -> Tensor:
    """Return the images (n, c, h, w) from their deepest LL and noise in all detail sub-bands, not clipped."""
    dwt = transform(settings.wavelet)
    sizes = _sizes((images.shape[-2], images.shape[-1]), settings)
    low, scales = _low_and_scales(images, settings, dwt)
    noise, start = normal(words).to(images.dtype), 0
    for size, scale in zip(reversed(sizes), reversed(scales), strict=True):  # coarsest first
        shape = _band_shape(images.shape[1], size, settings)
        stop = start + math.prod(shape)
        bands = noise[:, start:stop].view(-1, *shape) * scale
        low = dwt.from_details(bands, low, size)  # eq. (15), LH, HL, HH ~ N(0, scale²)
        start = stop
    return low


def _low_and_scales(images: Tensor, settings: ViewSettings, dwt: Transform) -> tuple[Tensor, list[Tensor | float]]:
    """Return the deepest LL and, finest level first, the noise's scale: a number or (n, 3, c, 1, 1)."""
    low = images
    if settings.noise != "matched":
        for _ in range(settings.level):
            low = dwt.approximation(low)
        scale = 1.0 if settings.noise == "unit" else float(settings.noise)
        return low, [scale] * settings.level
    scales: list[Tensor | float] = []
    for _ in range(settings.level):
        low, bands = dwt.both(low)
        scales.append(_deviation(bands))
    return low, scales


def _deviation(bands: Tensor) -> Tensor:
    """Return the population standard deviation of each sub-band: (…, h, w) to (…, 1, 1).

    Summed in float64 and rounded once: in which order the device adds does not show.
    """
    exact = bands.double()
    centred = exact - exact.mean(dim=(-2, -1), keepdim=True)
    # Same definition as Tensor.std(correction=0), which takes nine times as long on the CPU.
    norm: Tensor = torch.linalg.vector_norm(centred, dim=(-2, -1), keepdim=True)
    return (norm / math.sqrt(bands.shape[-2] * bands.shape[-1])).to(bands.dtype)


def _band_shape(channels: int, size: Size, settings: ViewSettings) -> tuple[int, int, int, int]:
    """Return the shape (3, c, h', w') of the detail sub-bands of an image of ``size``."""
    return (3, channels, *detail_shape(size, settings.wavelet))


def _sizes(size: Size, settings: ViewSettings) -> list[Size]:
    """Return the size (h, w) that each level of an image of ``size`` transforms, finest first."""
    most = largest_level(size, settings.wavelet)
    if settings.level > most:
        remedy = f"the largest level is {most}"
        if most == 0:
            remedy += ": choose a shorter wavelet or larger images"
        where = f"{settings.wavelet} on images of {size[0]}×{size[1]} pixels (height × width)"
        raise ParamsError(f"views.level: {settings.level} is too deep for {where}; {remedy}")
    sizes = [size]
    for _ in range(settings.level - 1):
        sizes.append(detail_shape(sizes[-1], settings.wavelet))
    return sizes
