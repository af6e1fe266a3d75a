"""One level of the 2-D discrete wavelet transform of a batch of images, and its inverse.

Equal to `pywt.dwt2` and `pywt.idwt2` (symmetric boundary) for every discrete wavelet of PyWavelets
and every size, odd ones included, but for a whole batch (n, c, h, w) on the images' own device.

A transform along one axis is linear, so it is a small matrix, and PyWavelets itself yields that
matrix when it transforms the identity: a level is a matrix product along either axis. Haar, the
default, is four times faster as sums and differences of neighbours (`_Haar`; tests hold it to the
general path).

Every product has the shape of one channel of one image, whatever the batch: an image's coefficients
have the same bits alone and among others.

The detail sub-bands come in PyWavelets' order cH, cV, cD, which the paper calls LH, HL, HH:
LH is high along the height, HL is high along the width, HH is high along both.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Protocol

import numpy as np
import pywt
import torch
from torch import Tensor

MODE = "symmetric"  # how PyWavelets continues an image beyond its border; its own default


class Transform(Protocol):
    """One level of a wavelet transform, for images of any size."""

    def approximation(self, images: Tensor) -> Tensor:
        """Return LL: (n, c, h, w) to (n, c, h', w')."""

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return LL and the details LH, HL, HH: (n, c, h, w) to (n, c, h', w') and (n, 3, c, h', w')."""

    def from_approximation(self, low: Tensor, size: tuple[int, int]) -> Tensor:
        """Invert LL with details of zero: (n, c, h', w') to (n, c, *size)."""

    def from_details(self, details: Tensor, low: Tensor, size: tuple[int, int]) -> Tensor:
        """Invert LH, HL, HH (n, 3, c, h', w') with ``low`` (n, c, h', w') as LL."""


def transform(wavelet: str) -> Transform:
    """Return the transform of a discrete wavelet of PyWavelets."""
    return _Haar() if wavelet in ("haar", "db1") else MatrixTransform(wavelet)


def detail_shape(size: tuple[int, int], wavelet: str) -> tuple[int, int]:
    """Return the height and width of the sub-bands of an image of ``size`` = (h, w)."""
    filter_length = pywt.Wavelet(wavelet).dec_len
    height, width = (int(pywt.dwt_coeff_len(length, filter_length, MODE)) for length in size)
    return height, width


def largest_level(size: tuple[int, int], wavelet: str) -> int:
    """Return how many levels an image of ``size`` = (h, w) allows; 0 if not even one."""
    return min(int(pywt.dwt_max_level(length, wavelet)) for length in size)


class _Operators(NamedTuple):
    """The filters of one axis as matrices: length n to m coefficients and back."""

    low: Tensor  # (m, n)
    high: Tensor  # (m, n)
    from_low: Tensor  # (n, m)
    from_high: Tensor  # (n, m)


@functools.lru_cache(maxsize=128)
def _operators(length: int, wavelet: str, dtype: torch.dtype, device: torch.device) -> _Operators:
    """Read the matrices off PyWavelets, in float64, rounded once to ``dtype``."""
    low, high = pywt.dwt(np.eye(length), wavelet, MODE, axis=0)
    unit = np.eye(len(low))
    # An odd length comes back one longer; `pywt.waverec2` drops that row between levels, so do we.
    from_low = pywt.idwt(unit, None, wavelet, MODE, axis=0)[:length]
    from_high = pywt.idwt(None, unit, wavelet, MODE, axis=0)[:length]
    return _Operators(*(_tensor(m, dtype, device) for m in (low, high, from_low, from_high)))


def _tensor(matrix: np.ndarray, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix)).to(device=device, dtype=dtype)


def _down(operator: Tensor, images: Tensor) -> Tensor:
    """Apply (p, h) along the height of (n, c, h, w)."""
    # bmm, not matmul: matmul may fold the batch into one product, whose rounding depends on n.
    flat = images.reshape(-1, *images.shape[-2:])
    result = torch.bmm(operator.expand(len(flat), *operator.shape), flat)
    return result.view(*images.shape[:-2], *result.shape[-2:])


def _across(images: Tensor, operator: Tensor) -> Tensor:
    """Apply (q, w) along the width of (n, c, h, w)."""
    flat = images.reshape(-1, *images.shape[-2:])
    result = torch.bmm(flat, operator.mT.expand(len(flat), *operator.mT.shape))
    return result.view(*images.shape[:-2], *result.shape[-2:])


class MatrixTransform:
    """The general path: any wavelet, as matrix products along height and width."""

    def __init__(self, wavelet: str) -> None:
        self.wavelet = wavelet

    def _axes(self, size: tuple[int, int], like: Tensor) -> tuple[_Operators, _Operators]:
        height, width = (_operators(n, self.wavelet, like.dtype, like.device) for n in size)
        return height, width

    def approximation(self, images: Tensor) -> Tensor:
        """Return LL, see `Transform`."""
        return self.both(images)[0]

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return LL and the details, see `Transform`."""
        rows, columns = self._axes((images.shape[-2], images.shape[-1]), images)
        low, high = _down(rows.low, images), _down(rows.high, images)
        lh, hl = _across(high, columns.low), _across(low, columns.high)
        details = torch.stack([lh, hl, _across(high, columns.high)], dim=1)
        return _across(low, columns.low), details

    def from_approximation(self, low: Tensor, size: tuple[int, int]) -> Tensor:
        """Invert LL alone, see `Transform`."""
        return self.from_details(low.new_zeros(len(low), 3, *low.shape[1:]), low, size)

    def from_details(self, details: Tensor, low: Tensor, size: tuple[int, int]) -> Tensor:
        """Invert the details and ``low``, see `Transform`."""
        rows, columns = self._axes(size, details)
        lh, hl, hh = details.unbind(1)
        left = _down(rows.from_high, lh) + _down(rows.from_low, low)
        right = _down(rows.from_low, hl) + _down(rows.from_high, hh)
        return _across(left, columns.from_low) + _across(right, columns.from_high)


class _Haar:
    """The fast path of the default wavelet: sums and differences of 2×2 neighbours."""

    def approximation(self, images: Tensor) -> Tensor:
        """Return LL, see `Transform`."""
        images = _even(images)
        sums = images[..., 0::2, :] + images[..., 1::2, :]
        return (sums[..., 0::2] + sums[..., 1::2]).mul_(0.5)

    def both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return LL and the details, see `Transform`."""
        images = _even(images)
        sums = images[..., 0::2, :] + images[..., 1::2, :]
        differences = images[..., 0::2, :] - images[..., 1::2, :]
        n, c, h, w = images.shape
        low = images.new_empty(n, c, h // 2, w // 2)
        bands = images.new_empty(n, 3, c, h // 2, w // 2)
        torch.add(sums[..., 0::2], sums[..., 1::2], out=low)
        torch.add(differences[..., 0::2], differences[..., 1::2], out=bands[:, 0])
        torch.sub(sums[..., 0::2], sums[..., 1::2], out=bands[:, 1])
        torch.sub(differences[..., 0::2], differences[..., 1::2], out=bands[:, 2])
        return low.mul_(0.5), bands.mul_(0.5)

    def from_approximation(self, low: Tensor, size: tuple[int, int]) -> Tensor:
        """Invert LL alone, see `Transform`."""
        doubled = (low * 0.5).repeat_interleave(2, dim=-1).repeat_interleave(2, dim=-2)
        return doubled[..., : size[0], : size[1]]

    def from_details(self, details: Tensor, low: Tensor, size: tuple[int, int]) -> Tensor:
        """Invert the details and ``low``, see `Transform`."""
        lh, hl, hh = (details * 0.5).unbind(1)
        half = low * 0.5
        top, bottom = half + lh, half - lh
        top_change, bottom_change = hl + hh, hl - hh
        n, c, h, w = low.shape
        image = low.new_empty(n, c, 2 * h, 2 * w)
        torch.add(top, top_change, out=image[..., 0::2, 0::2])
        torch.sub(top, top_change, out=image[..., 0::2, 1::2])
        torch.add(bottom, bottom_change, out=image[..., 1::2, 0::2])
        torch.sub(bottom, bottom_change, out=image[..., 1::2, 1::2])
        return image[..., : size[0], : size[1]]


def _even(images: Tensor) -> Tensor:
    """Repeat the last row or column of an odd size: what the symmetric boundary does for Haar."""
    height, width = images.shape[-2:]
    if height % 2 == 0 and width % 2 == 0:
        return images
    padding = (0, width % 2, 0, height % 2)
    return torch.nn.functional.pad(images, padding, mode="replicate")
