"""Frequency-aware views of images, eq. (15): high frequencies taken away, or replaced by noise.

An image in [0, 1] is wavelet-transformed over ``level`` levels; the deepest LL sub-band is kept;
the detail sub-bands LH, HL, HH of all levels become zeros (view ``zeros``) or normal noise (view
``rand``); the inverse transform is cropped to the image's size and clipped to [0, 1].

The released code draws unit noise from a global generator, so that most pixels of ``rand`` clip.
Here the scale is a setting, and the noise of an image is a function of (seed, sha256 of the image)
alone: the same whatever the batch, the worker or the order. It is drawn on the CPU, float32, from
PCG64: coarsest level first; within a level LH, HL, HH; within those channel, row, column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pywt
import torch
from torch import Tensor

from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.wavelet_transform import Transform, detail_shape, largest_level, transform

VIEWS = ("original", "zeros", "rand")
NOISE_SCALES = ("unit", "matched")

Size = tuple[int, int]


@dataclass(frozen=True)
class ViewSettings:
    """How the views are made; validated at construction.

    wavelet: any discrete wavelet of PyWavelets.
    level: number of levels, at least 1.
    noise: standard deviation of the noise of ``rand``: "unit" is 1, a number is itself, "matched"
        is the standard deviation of the very sub-band it replaces, per image and channel.
    seed: of the noise.
    """

    wavelet: str = "haar"
    level: int = 1
    noise: Literal["unit", "matched"] | float = "matched"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be computed, naming the key."""
        known = pywt.wavelist(kind="discrete")
        if self.wavelet not in known:
            hint = did_you_mean(str(self.wavelet), known)
            raise ParamsError(f"views.wavelet: no discrete wavelet {self.wavelet!r}{hint}")
        if not _is_whole(self.level) or self.level < 1:
            raise ParamsError(f"views.level: a whole number from 1 on, not {self.level!r}")
        if not _is_whole(self.seed) or self.seed < 0:
            raise ParamsError(f"views.seed: a whole number from 0 on, not {self.seed!r}")
        _check_noise(self.noise)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_noise(noise: object) -> None:
    if isinstance(noise, str):
        if noise not in NOISE_SCALES:
            hint = did_you_mean(noise, NOISE_SCALES)
            raise ParamsError(f"views.noise: neither a number nor a known scale: {noise!r}{hint}")
        return
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < math.inf:
        raise ParamsError(f"views.noise: 'unit', 'matched' or a number from 0 on, not {noise!r}")


def frequency_views(
    images: Tensor, views: Sequence[str], settings: ViewSettings, keys: Sequence[bytes]
) -> dict[str, Tensor]:
    """Return the named ``views`` of a batch of images, eq. (15).

    images: (n, c, h, w), floating point in [0, 1], on any device.
    keys: the sha256 digests of the n images; only ``rand`` reads them.
    Each view is (n, c, h, w) on the same device; an image's view has the same bits in every batch.
    """
    _check_batch(images, views, keys)
    made = {"original": images}
    if "zeros" in views or "rand" in views:
        low_pass = _low_pass(images, settings)
        if "zeros" in views:
            made["zeros"] = low_pass.clamp(0, 1)
        if "rand" in views:
            noise = _noise_image(images, settings, keys)
            made["rand"] = (low_pass + noise).clamp_(0, 1)
    return {view: made[view] for view in views}


def removed(images: Tensor, settings: ViewSettings) -> Tensor:
    """Return original − zeros before clipping, (n, c, h, w): what view ``zeros`` takes away."""
    return images - _low_pass(images, settings)


def _check_batch(images: Tensor, views: Sequence[str], keys: Sequence[bytes]) -> None:
    for view in views:
        if view not in VIEWS:
            raise ParamsError(f"views: no view {view!r}{did_you_mean(str(view), VIEWS)}")
    if images.ndim != 4 or not images.is_floating_point():
        kind = f"{images.dtype} {tuple(images.shape)}"
        raise ValueError(f"images must be floating point (n, c, h, w), not {kind}")
    if len(keys) != len(images):
        raise ValueError(f"{len(images)} images need as many keys, not {len(keys)}")


def _low_pass(images: Tensor, settings: ViewSettings) -> Tensor:
    """Return the images (n, c, h, w) from their deepest LL alone, not clipped."""
    dwt = transform(settings.wavelet)
    low = images
    sizes = _sizes(images, settings)
    for _ in range(settings.level):
        low = dwt.approximation(low)
    for size in reversed(sizes):  # eq. (15), LH = HL = HH = 0
        low = dwt.from_approximation(low, size)
    return low


def _noise_image(images: Tensor, settings: ViewSettings, keys: Sequence[bytes]) -> Tensor:
    """Return the image (n, c, h, w) of noise in all detail sub-bands over an LL of zeros.

    The transform is linear, so this plus `_low_pass` is the view ``rand`` before clipping.
    """
    dwt = transform(settings.wavelet)
    sizes = _sizes(images, settings)
    scales = _noise_scales(images, settings, dwt)
    shapes = [(3, images.shape[1], *detail_shape(size, settings.wavelet)) for size in sizes]
    drawn = _draw(settings.seed, keys, shapes)
    noise: Tensor | None = None
    for level in reversed(range(settings.level)):  # eq. (15), LH, HL, HH ~ N(0, scale²)
        bands = torch.from_numpy(drawn[level]).to(images) * scales[level]
        noise = dwt.from_details(bands, noise, sizes[level])
    assert noise is not None  # noqa: S101  a level is at least 1
    return noise


def _noise_scales(
    images: Tensor, settings: ViewSettings, dwt: Transform
) -> list[Tensor] | list[float]:
    """Return, finest level first, the noise's standard deviation: a number or (n, 3, c, 1, 1)."""
    if settings.noise != "matched":
        return [1.0 if settings.noise == "unit" else float(settings.noise)] * settings.level
    scales = []
    low = images
    for level in range(settings.level):
        if level:
            low = dwt.approximation(low)
        scales.append(_deviation(dwt.details(low)))
    return scales


def _deviation(bands: Tensor) -> Tensor:
    """Return the population standard deviation of each sub-band: (…, h, w) to (…, 1, 1)."""
    centred = bands - bands.mean(dim=(-2, -1), keepdim=True)
    # Same definition as Tensor.std(correction=0), which takes nine times as long on the CPU.
    norm: Tensor = torch.linalg.vector_norm(centred, dim=(-2, -1), keepdim=True)
    return norm / math.sqrt(bands.shape[-2] * bands.shape[-1])


def _draw(seed: int, keys: Sequence[bytes], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return standard normal noise (n, *shape) per level, finest first; a stream per image."""
    drawn = [np.empty((len(keys), *shape), dtype=np.float32) for shape in shapes]
    for i, key in enumerate(keys):
        stream = np.random.SeedSequence(int.from_bytes(key, "big"), spawn_key=(seed,))
        generator = np.random.Generator(np.random.PCG64(stream))
        for level in reversed(drawn):  # coarsest first
            generator.standard_normal(dtype=np.float32, out=level[i])
    return drawn


def _sizes(images: Tensor, settings: ViewSettings) -> list[Size]:
    """Return the size (h, w) that each level transforms, finest first."""
    size = (images.shape[-2], images.shape[-1])
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
