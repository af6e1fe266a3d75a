"""The centre crop of a scaled image, to the bit what Pillow's ``resize`` and ``crop`` give, without the rest of it.

Scaling a 500-pixel photo takes Pillow twice as long as decoding it, and half of what it computes is cropped away.
`resample.c` does the same integer arithmetic on the crop alone, with the processor's vector instructions. Where it was
not compiled, or the case or the version of Pillow is not one it knows, the answer is None and Pillow does the work.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from pipeline.encoders.native import library

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

PRECISION_BITS = 22  # of a coefficient, after the point: Pillow's 32 - 8 - 2
MOST_TAPS = 4096  # beyond, a picture is scaled down so far that there is nothing to gain


def _bilinear(x: Floats) -> Floats:
    return np.where(x < 1.0, 1.0 - x, 0.0)


def _bicubic(x: Floats) -> Floats:
    near = ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * -0.5
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


# Filters of distances from 0 on, and how far they reach. Polynomials only: Lanczos needs a sine, whose last bit is not
# the same everywhere.
FILTERS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "bilinear": (_bilinear, 1.0),
    "bicubic": (_bicubic, 2.0),
}


Size = tuple[int, int]  # width, height
# Pictures whose scaling shows by which rule Pillow orders its two steps: on both sides of the known rules' borders.
ORDER_SHOWS: tuple[tuple[Size, Size], ...] = (
    *(((40, 40), (30, 19)), ((40, 40), (30, 20)), ((40, 40), (30, 21))),
    *(((24, 40), (25, 39)), ((24, 40), (25, 41)), ((40, 24), (20, 10)), ((40, 24), (60, 30))),
    *(((40, 24), (60, 20)), ((30, 50), (20, 31)), ((30, 50), (20, 29)), ((50, 30), (45, 12))),
)


class Weights(NamedTuple):
    """What each of n pixels of the result weighs: ``taps`` pixels from its bound on."""

    first: int  # of the source's pixels that any of them weighs; bounds count from it
    length: int  # how many there are
    bounds: npt.NDArray[np.int32]  # (n,)
    weights: npt.NDArray[np.int32]  # (n, taps)


@functools.lru_cache(maxsize=4096)
def weights_of(old: int, new: int, start: int, stop: int, interpolation: str) -> Weights | None:
    """Return Pillow's coefficients of pixels ``start:stop`` where ``old`` pixels become ``new``.

    The same operations in the same order as `precompute_coeffs` and `normalize_coeffs_8bpc` of Pillow, in float64.
    """
    kernel, reach = FILTERS[interpolation]
    scale = old / new
    support = reach * max(scale, 1.0)
    centre = (np.arange(start, stop) + 0.5) * scale
    low = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    high = np.minimum((centre + support + 0.5).astype(np.int64), old)
    taps = int((high - low).max())
    if taps > MOST_TAPS:
        return None
    place = low[:, None] + np.arange(taps)
    there = place < high[:, None]
    distance = np.abs((place - centre[:, None] + 0.5) * (1.0 / max(scale, 1.0)))
    values = np.where(there, kernel(distance), 0.0)
    total = np.zeros(stop - start)
    for tap in range(taps):  # one after another, as Pillow adds them: NumPy's sum has its own order
        total += values[:, tap]
    values = np.divide(values, total[:, None], out=values, where=total[:, None] != 0.0)
    fixed = values * (1 << PRECISION_BITS)
    whole = (fixed + np.where(fixed < 0, -0.5, 0.5)).astype(np.int32)
    # Windows that end beyond the last pixel of the source move back, so that none is read beyond it.
    first, last = int(low.min()), int(high.max())
    bounds = np.minimum(low, last - taps)
    moved = np.zeros((stop - start, taps), np.int32)
    rows, columns = np.nonzero(there)
    moved[rows, columns + (low - bounds)[rows]] = whole[rows, columns]
    return Weights(first, last - first, (bounds - first).astype(np.int32), moved)


def crop_of_resized(
    image: Image.Image,
    resized: tuple[int, int],
    corner: tuple[int, int],
    crop: tuple[int, int],
    interpolation: str,
) -> npt.NDArray[np.uint8] | None:
    """Return, as (height, width, 3), the ``crop`` at ``corner`` of the RGB ``image`` scaled to ``resized``, or None.

    Sizes are (width, height). None: Pillow has to do it (see above).
    """
    compiled, height_first = library(), _height_first()
    inside = all(
        c >= 0 and c + n <= whole for c, n, whole in zip(corner, crop, resized, strict=True)
    )
    if compiled is None or height_first is None or not inside or interpolation not in FILTERS:
        return None
    across, down = (
        weights_of(old, new, start, start + length, interpolation)
        for old, new, start, length in zip(image.size, resized, corner, crop, strict=True)
    )
    memory = _memory(image)
    if across is None or down is None or memory is None:
        return None
    stride = 4 * image.width
    width, height = crop
    result = np.empty((height, width, 3), np.uint8)
    failed = compiled.referee_resample(
        memory.address + down.first * stride + 4 * across.first,
        *(stride, across.length, down.length, height_first(image.size, resized)),
        *(width, across.bounds.ctypes.data, across.weights.ctypes.data, across.weights.shape[1]),
        *(height, down.bounds.ctypes.data, down.weights.ctypes.data, down.weights.shape[1]),
        result.ctypes.data,
    )
    return None if failed else result


def is_fast() -> bool:
    """Whether `resample.c` was compiled when the package was installed, and knows this Pillow's ways."""
    return library() is not None and _height_first() is not None


def _never(_old: Size, _new: Size) -> bool:
    """Pillow up to 12 scales along the width first."""
    return False


def _if_it_shrinks_more(old: Size, new: Size) -> bool:
    """Pillow 13 scales along the height first where that takes away more than twice as many lines."""
    lost_width, lost_height = (before - after for before, after in zip(old, new, strict=True))
    return lost_height > 0 and lost_height > 2 * lost_width


@functools.cache
def _height_first() -> Callable[[Size, Size], bool] | None:
    """Return the rule by which this Pillow chooses the side it scales first, or None: it is none of the known ones.

    The rounding between the two steps makes the order visible, so each rule is held against a few scaled pictures.
    """
    rng = np.random.default_rng(0)
    seen = []
    for old, new in ORDER_SHOWS:
        pixels = rng.integers(0, 256, (old[1], old[0], 3), dtype=np.uint8)
        image = Image.fromarray(pixels)
        bicubic = Image.Resampling.BICUBIC
        scaled = image.resize(new, bicubic).tobytes()
        width_first = image.resize((new[0], old[1]), bicubic).resize(new, bicubic).tobytes()
        height_first = image.resize((old[0], new[1]), bicubic).resize(new, bicubic).tobytes()
        if (scaled == width_first) == (scaled == height_first):
            return None
        seen.append(scaled == height_first)
    for rule in (_if_it_shrinks_more, _never):
        if seen == [rule(old, new) for old, new in ORDER_SHOWS]:
            return rule
    return None


class _ArrowArray(ctypes.Structure):
    """The head of an array of the Arrow C data interface, which Pillow hands its memory out by."""


_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
]


class _Memory(NamedTuple):
    """Where an image's pixels lie, 4 bytes each, row after row; ``owner`` keeps them there."""

    address: int
    owner: object


def _memory(image: Image.Image) -> _Memory | None:
    """Return the memory of an RGB image, or None where Pillow is too old or keeps it in several blocks."""
    try:
        _, capsule = image.__arrow_c_array__()
    except (AttributeError, ValueError, MemoryError):
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    array = ctypes.cast(pointer(capsule, b"arrow_array"), ctypes.POINTER(_ArrowArray)).contents
    pixels = image.width * image.height
    if array.n_children != 1 or array.length != pixels or array.offset:
        return None
    bytes_of_pixels = array.children[0].contents
    if bytes_of_pixels.length != 4 * pixels or bytes_of_pixels.offset:
        return None
    address = bytes_of_pixels.buffers[1]
    return None if address is None else _Memory(address, capsule)
