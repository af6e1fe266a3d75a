"""Frequency-aware views of images, eq. (15): high frequencies removed or replaced by noise.

An image in [0, 1] is wavelet-transformed over ``level`` levels. The deepest LL sub-band is kept, and the detail
sub-bands LH, HL, HH of all levels are replaced by zeros (view ``zeros``) or normal noise (view ``rand``). The inverse
transform is cropped to the image's size and clipped to [0, 1].

The released code draws unit noise from a global generator, so that most pixels of ``rand`` clip. Here the scale is a
setting, and an image's noise depends only on the seed and the image's sha256, not on the batch, the worker or the
order. Its numbers are ordered by level, coarsest first, then sub-band (LH, HL, HH), channel, row and column.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtri
from torch import Tensor

from pipeline.errors import ParamsError
from pipeline.method.wavelet_transform import detail_shape, join, largest_level, split

Size = tuple[int, int]
Words = npt.NDArray[np.int16]

VALUES = 2**16  # number of values of a word
WORDS_PER_DRAW = 4  # PCG64 draws 64 bits at a time


@dataclass(frozen=True)
class ViewSettings:
    """Settings of the views, validated by `pipeline.config.settings.Views`."""

    wavelet: str = "haar"  # any discrete wavelet of PyWavelets
    level: int = 1  # number of levels, at least 1
    # standard deviation of the noise of ``rand``: 1 (unit), that of the replaced sub-band per image and channel
    # (matched), or a number
    noise: Literal["unit", "matched"] | float = "matched"
    seed: int = 0  # seed of the noise


def frequency_views(
    images: Tensor, views: Sequence[str], settings: ViewSettings, keys: Sequence[bytes], words: Tensor | None = None
) -> dict[str, Tensor]:
    """Return views of a batch of images by name, eq. (15); the bits of a view do not depend on the batch.

    Parameters
    ----------
    images : Tensor of shape (n, c, h, w)
        Floating point in [0, 1], on any device.
    views : sequence of str
        Names among `views.VIEWS`.
    keys : sequence of bytes
        The sha256 digests of the n images; only ``rand`` uses them.
    words : Tensor, optional
        The result of `noise_words` for these keys, on the images' device, if drawn beforehand.
    """
    computed = {"original": images}
    if "zeros" in views or "rand" in views:
        low, details = _split(images, settings)
    if "zeros" in views:
        computed["zeros"] = _joined(low, [None] * settings.level, images.shape[-2:], settings).clamp(0, 1)
    if "rand" in views:
        if words is None:
            words = torch.from_numpy(noise_words(images.shape, settings, keys)).to(images.device)
        noise = _noise(details, settings, normal_values(words).to(images.dtype))
        computed["rand"] = _joined(low, noise, images.shape[-2:], settings).clamp(0, 1)
    return {view: computed[view] for view in views}


def noise_words(shape: Sequence[int], settings: ViewSettings, keys: Sequence[bytes]) -> Words:
    """Return random 16-bit words (n, count) for the noise of ``rand`` for n images of ``shape`` (…, c, h, w).

    ``keys`` are the sha256 digests of the images. A word is an index into 65,536 equally likely values of the normal
    distribution. Drawing bits and looking up values takes a sixth of the time of drawing normal numbers, which was half
    of the cost of the views. The words are drawn on the CPU; the look-up runs on the images' device. The values end at
    4.2 standard deviations, more than an 8-bit pixel can hold.
    """
    bands = [detail_shape(size, settings.wavelet) for size in _sizes(shape[-2:], settings)]
    count = sum(3 * shape[-3] * height * width for height, width in bands)
    words = np.empty((len(keys), count), np.int16)
    for row, key in zip(words, keys, strict=True):
        stream = np.random.SeedSequence(int.from_bytes(key, "big"), spawn_key=(settings.seed,))
        drawn = np.random.PCG64(stream).random_raw(-(-count // WORDS_PER_DRAW))
        row[:] = drawn.astype("<u8", copy=False).view("<i2")[:count]
    return words


def removed_details(images: Tensor, settings: ViewSettings) -> Tensor:
    """Return what view ``zeros`` removes, (n, c, h, w): original − zeros before clipping."""
    low, _ = _split(images, settings)
    return images - _joined(low, [None] * settings.level, images.shape[-2:], settings)


def _split(images: Tensor, settings: ViewSettings) -> tuple[Tensor, list[Tensor]]:
    """Return the deepest LL and the details (n, 3, c, h', w') of all levels, finest first."""
    low, details = images, []
    for _ in _sizes(images.shape[-2:], settings):
        low, bands = split(low, settings.wavelet)
        details.append(bands)
    return low, details


def _joined(low: Tensor, details: Sequence[Tensor | None], size: Sequence[int], settings: ViewSettings) -> Tensor:
    """Return unclipped images of ``size`` (h, w), given the deepest LL and the details; None means zeros."""
    for shape, bands in zip(reversed(_sizes(size, settings)), reversed(details), strict=True):
        low = join(low, bands, shape, settings.wavelet)  # eq. (15)
    return low


def _noise(details: Sequence[Tensor], settings: ViewSettings, standard: Tensor) -> list[Tensor]:
    """Return noise that replaces the details of all levels, given standard normal numbers (n, count)."""
    kind, noise, stop = settings.noise, list[Tensor](), standard.shape[1]
    for bands in details:  # finest first, while the numbers start with the coarsest level
        start = stop - bands[0].numel()
        scale = _deviation(bands) if kind == "matched" else 1.0 if kind == "unit" else kind
        noise.append(standard[:, start:stop].view(bands.shape) * scale)  # LH, HL, HH ~ N(0, scale²)
        stop = start
    return noise


def _deviation(bands: Tensor) -> Tensor:
    """Return the population standard deviation of each sub-band: (…, h, w) to (…, 1, 1).

    The sum is float64 and rounded once, so the order in which the device adds does not matter.
    """
    centred = bands.to(torch.float64, copy=True)
    centred -= centred.mean(dim=(-2, -1), keepdim=True)
    # the same as Tensor.std(correction=0), which takes nine times as long on the CPU
    norm: Tensor = torch.linalg.vector_norm(centred, dim=(-2, -1), keepdim=True)
    return (norm / math.sqrt(bands.shape[-2] * bands.shape[-1])).to(bands.dtype)


def _sizes(size: Sequence[int], settings: ViewSettings) -> list[Size]:
    """Return the input size (h, w) of each level, finest first; raise ParamsError if there are too many levels."""
    largest = largest_level(size, settings.wavelet)
    if settings.level > largest:
        remedy = f"the largest level is {largest}"
        if largest == 0:
            remedy += ": choose a shorter wavelet or larger images"
        transform = f"{settings.wavelet} on images of {size[0]}×{size[1]} pixels (height × width)"
        raise ParamsError(f"views.level: {settings.level} is too deep for {transform}; {remedy}")
    sizes = [(size[0], size[1])]
    for _ in range(settings.level - 1):
        sizes.append(detail_shape(sizes[-1], settings.wavelet))
    return sizes


def normal_values(words: Tensor) -> Tensor:
    """Return the float32 values of int16 ``words`` of any shape; larger words have larger values."""
    index = words.flatten().int().add_(VALUES // 2)
    return torch.index_select(quantiles(words.device), 0, index).view(words.shape)


@functools.cache
def quantiles(device: torch.device) -> Tensor:
    """Return the values of the words -32,768 to 32,767: the medians of 65,536 parts of equal probability.

    They are exactly symmetric about zero and have variance 1.
    """
    upper = ndtri((np.arange(VALUES // 2, VALUES) + 0.5) / VALUES)
    upper /= math.sqrt(np.mean(upper**2))
    values = np.concatenate([-upper[::-1], upper]).astype(np.float32)
    return torch.from_numpy(values).to(device)
