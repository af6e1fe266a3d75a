"""One level of the 2-D discrete wavelet transform of a batch of images, and its inverse.

The results equal `pywt.dwt2` and `pywt.idwt2` (symmetric boundary) for every discrete wavelet of PyWavelets and every
size, odd ones included, but are computed for a whole batch (n, c, h, w) on the images' device.

A transform along one axis is linear, and PyWavelets gives its matrix by transforming the identity. A level is then a
matrix product along each axis. The rows of both filters alternate in the matrix, so its nonzeros form a band along the
diagonal. It is cut into blocks of rows, each multiplied only with the columns of its band. Haar, the default, is faster
still as sums and differences of neighbours; tests compare it with the general path.

Every product has the shape of one channel of one image, whatever the batch, so an image's coefficients have the same
bits in every batch.

The detail sub-bands are in PyWavelets' order cH, cV, cD, called LH, HL, HH in the paper: LH is high along the height,
HL along the width, HH along both.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pywt
import torch
from torch import Tensor

MODE = "symmetric"  # boundary mode, the default of PyWavelets
HAAR = ("haar", "db1")  # two names of one wavelet
BLOCK_ROWS = 32  # rows per block of a matrix: few, to have few zeros, but enough for a fast product


def split(images: Tensor, wavelet: str) -> tuple[Tensor, Tensor]:
    """Return LL (n, c, h', w') and the details LH, HL, HH (n, 3, c, h', w') of images (n, c, h, w)."""
    return _haar_split(images) if wavelet in HAAR else matrix_split(images, wavelet)


def join(low: Tensor, details: Tensor | None, size: tuple[int, int], wavelet: str) -> Tensor:
    """Return images (n, c, *size), given LL and the details, or zeros if None; the inverse of `split`."""
    return _haar_join(low, details, size) if wavelet in HAAR else matrix_join(low, details, size, wavelet)


def detail_shape(size: tuple[int, int], wavelet: str) -> tuple[int, int]:
    """Return the height and width of the sub-bands of an image of ``size`` = (h, w)."""
    filter_length = pywt.Wavelet(wavelet).dec_len
    height, width = (int(pywt.dwt_coeff_len(length, filter_length, MODE)) for length in size)
    return height, width


def largest_level(size: Sequence[int], wavelet: str) -> int:
    """Return the largest number of levels for an image of ``size`` = (h, w), possibly 0."""
    return min(int(pywt.dwt_max_level(length, wavelet)) for length in size)


_Matrix = list[tuple[slice, Tensor]]  # (columns of the band, band (p, q)) per block of rows


class _Operators(NamedTuple):
    """Matrices that transform an axis of length n to m pairs (low, high coefficient) and back."""

    to_pairs: _Matrix  # (2m, n)
    from_pairs: _Matrix  # (n, 2m)
    from_low: _Matrix  # (n, m) for high coefficients of zero


@functools.lru_cache(maxsize=128)
def _operators(length: int, wavelet: str, dtype: torch.dtype, device: torch.device) -> _Operators:
    """Return the matrices of PyWavelets, computed in float64 and rounded once to ``dtype``."""
    low, high = pywt.dwt(np.eye(length), wavelet, MODE, axis=0)
    unit = np.eye(len(low))
    # the inverse of an odd length is one longer; that row is dropped, as in `pywt.waverec2`
    from_low = pywt.idwt(unit, None, wavelet, MODE, axis=0)[:length]
    from_high = pywt.idwt(None, unit, wavelet, MODE, axis=0)[:length]
    to_pairs = np.stack([low, high], axis=1).reshape(-1, length)
    from_pairs = np.stack([from_low, from_high], axis=2).reshape(length, -1)
    return _Operators(*(_blocks(matrix, dtype, device) for matrix in (to_pairs, from_pairs, from_low)))


def _blocks(matrix: np.ndarray, dtype: torch.dtype, device: torch.device) -> _Matrix:
    """Cut a banded matrix into blocks of rows without the zeros on either side."""
    blocks = []
    for rows in np.array_split(matrix, -(-len(matrix) // BLOCK_ROWS)):
        nonzero = np.flatnonzero(rows.any(axis=0))
        band = slice(int(nonzero[0]), int(nonzero[-1]) + 1)
        blocks.append((band, torch.from_numpy(rows[:, band].copy()).to(device=device, dtype=dtype)))
    return blocks


def _two_sided_product(rows: _Matrix, columns: _Matrix, images: Tensor) -> Tensor:
    """Return rows·image·columnsᵀ, (n, c, p, q), for matrices (p, h) and (q, w) and images (n, c, h, w)."""
    result = _transposed_product(rows, _transposed_product(columns, images.reshape(-1, *images.shape[-2:])))
    return result.view(*images.shape[:-2], *result.shape[-2:])


def _transposed_product(matrix: _Matrix, images: Tensor) -> Tensor:
    """Return matrix·imageᵀ, (k, q, h), for a matrix (q, w) and images (k, h, w)."""
    # bmm, not matmul, which may fold the batch into one product whose rounding depends on k
    k = len(images)
    return torch.cat([torch.bmm(rows.expand(k, *rows.shape), images[..., band].mT) for band, rows in matrix], dim=1)


def _axes(size: Sequence[int], wavelet: str, like: Tensor) -> list[_Operators]:
    """Return the operators of height and width, with the dtype and device of ``like``."""
    return [_operators(length, wavelet, like.dtype, like.device) for length in size]


def matrix_split(images: Tensor, wavelet: str) -> tuple[Tensor, Tensor]:
    """Implement `split` for any wavelet, by a banded matrix along each axis."""
    rows, columns = _axes(images.shape[-2:], wavelet, images)
    pairs = _two_sided_product(rows.to_pairs, columns.to_pairs, images)
    low, lh, hl, hh = (pairs[..., i::2, j::2] for j in (0, 1) for i in (0, 1))
    return low.contiguous(), torch.stack([lh, hl, hh], dim=1)


def matrix_join(low: Tensor, details: Tensor | None, size: tuple[int, int], wavelet: str) -> Tensor:
    """Implement `join` for any wavelet."""
    rows, columns = _axes(size, wavelet, low)
    if details is None:
        return _two_sided_product(rows.from_low, columns.from_low, low)
    pairs = low.new_empty(*low.shape[:-2], 2 * low.shape[-2], 2 * low.shape[-1])
    pairs[..., 0::2, 0::2] = low
    pairs[..., 1::2, 0::2], pairs[..., 0::2, 1::2], pairs[..., 1::2, 1::2] = details.unbind(1)
    return _two_sided_product(rows.from_pairs, columns.from_pairs, pairs)


def _haar_split(images: Tensor) -> tuple[Tensor, Tensor]:
    """Implement `split` for the Haar wavelet, by sums and differences of 2×2 neighbours."""
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
    """Implement `join` for the Haar wavelet."""
    half = low * 0.5
    if details is None:
        return half.repeat_interleave(2, dim=-1).repeat_interleave(2, dim=-2)[..., : size[0], : size[1]]
    lh, hl, hh = (details * 0.5).unbind(1)
    image = low.new_empty(*low.shape[:-2], 2 * low.shape[-2], 2 * low.shape[-1])
    for row, (sums, differences) in enumerate([(half + lh, hl + hh), (half - lh, hl - hh)]):
        torch.add(sums, differences, out=image[..., row::2, 0::2])
        torch.sub(sums, differences, out=image[..., row::2, 1::2])
    return image[..., : size[0], : size[1]]
