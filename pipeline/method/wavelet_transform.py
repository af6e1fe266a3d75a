"""One level of the 2-D discrete wavelet transform of a batch of images, and its inverse.

Equal to `pywt.dwt2` and `pywt.idwt2` (symmetric boundary) for every discrete wavelet of PyWavelets
and every size, odd ones included, but for a whole batch (n, c, h, w) on the images' own device.

A transform along one axis is linear, so it is a small matrix, and PyWavelets itself yields that
matrix when it transforms the identity: a level is a matrix product along either axis. Haar, the
default, is four times faster as sums and differences of neighbours; tests hold it to the general
path.

Every product has the shape of one channel of one image, whatever the batch: an image's coefficients
have the same bits alone and among others.

The detail sub-bands come in PyWavelets' order cH, cV, cD, which the paper calls LH, HL, HH:
LH is high along the height, HL is high along the width, HH is high along both.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pywt
import torch
from torch import Tensor

MODE = "symmetric"  # how PyWavelets continues an image beyond its border; its own default
HAAR = ("haar", "db1")  # two names of one wavelet


def split(images: Tensor, wavelet: str) -> tuple[Tensor, Tensor]:
    """Return LL and the details LH, HL, HH: (n, c, h, w) to (n, c, h', w') and (n, 3, c, h', w')."""
    return _haar_split(images) if wavelet in HAAR else matrix_split(images, wavelet)


def join(low: Tensor, details: Tensor | None, size: tuple[int, int], wavelet: str) -> Tensor:
    """Invert `split`: LL and the details, zeros if None, to (n, c, *size)."""
    return _haar_join(low, details, size) if wavelet in HAAR else matrix_join(low, details, size, wavelet)


def detail_shape(size: tuple[int, int], wavelet: str) -> tuple[int, int]:
    """Return the height and width of the sub-bands of an image of ``size`` = (h, w)."""
    filter_length = pywt.Wavelet(wavelet).dec_len
    height, width = (int(pywt.dwt_coeff_len(length, filter_length, MODE)) for length in size)
    return height, width


def largest_level(size: Sequence[int], wavelet: str) -> int:
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


def _axes(size: Sequence[int], wavelet: str, like: Tensor) -> list[_Operators]:
    """Return the operators of height and width."""
    return [_operators(length, wavelet, like.dtype, like.device) for length in size]


def matrix_split(images: Tensor, wavelet: str) -> tuple[Tensor, Tensor]:
    """`split` for any wavelet: matrix products along height and width."""
    rows, columns = _axes(images.shape[-2:], wavelet, images)
    low, high = _down(rows.low, images), _down(rows.high, images)
    lh, hl = _across(high, columns.low), _across(low, columns.high)
    return _across(low, columns.low), torch.stack([lh, hl, _across(high, columns.high)], dim=1)


def matrix_join(low: Tensor, details: Tensor | None, size: tuple[int, int], wavelet: str) -> Tensor:
    """`join` for any wavelet."""
    rows, columns = _axes(size, wavelet, low)
    left = _down(rows.from_low, low)
    if details is None:
        return _across(left, columns.from_low)
    lh, hl, hh = details.unbind(1)
    left += _down(rows.from_high, lh)
    right = _down(rows.from_low, hl) + _down(rows.from_high, hh)
    return _across(left, columns.from_low) + _across(right, columns.from_high)


def _haar_split(images: Tensor) -> tuple[Tensor, Tensor]:
    """`split` for the default wavelet: sums and differences of 2×2 neighbours."""
    height, width = images.shape[-2:]
    if height % 2 or width % 2:  # the symmetric boundary repeats the last row or column
        images = torch.nn.functional.pad(images, (0, width % 2, 0, height % 2), mode="replicate")
    sums = images[..., 0::2, :] + images[..., 1::2, :]
    differences = images[..., 0::2, :] - images[..., 1::2, :]
    low = sums[..., 0::2] + sums[..., 1::2]
    bands = low.new_empty(len(low), 3, *low.shape[1:])
    torch.add(differences[..., 0::2], differences[..., 1::2], out=bands[:, 0])
    torch.sub(sums[..., 0::2], sums[..., 1::2], out=bands[:, 1])
    torch.sub(differences[..., 0::2], differences[..., 1::2], out=bands[:, 2])
    return low.mul_(0.5), bands.mul_(0.5)


def _haar_join(low: Tensor, details: Tensor | None, size: tuple[int, int]) -> Tensor:
    """`join` for the default wavelet."""
    half = low * 0.5
    if details is None:
        return half.repeat_interleave(2, dim=-1).repeat_interleave(2, dim=-2)[..., : size[0], : size[1]]
    lh, hl, hh = (details * 0.5).unbind(1)
    image = low.new_empty(*low.shape[:-2], 2 * low.shape[-2], 2 * low.shape[-1])
    for row, (side, change) in enumerate([(half + lh, hl + hh), (half - lh, hl - hh)]):
        torch.add(side, change, out=image[..., row::2, 0::2])
        torch.sub(side, change, out=image[..., row::2, 1::2])
    return image[..., : size[0], : size[1]]
