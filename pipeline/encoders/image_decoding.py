"""Decode image files to RGB, or raise InputError naming the file and the reason.

Embedded colour profiles are ignored, as in timm's and open_clip's own loaders. Transparent pixels are composited over
white, because product shots and clip art (Office-31 amazon, Office-Home, DomainNet) are drawn for a white page. A bare
``convert("RGB")`` drops the alpha channel and uncovers the hidden colour of transparent pixels, often black.
"""

import functools
import hashlib
import io
import struct
import sys
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features

from pipeline.image_files.read import read_bytes, unreadable

# Decoders that may run on a file, whatever its suffix. Pillow also opens formats that start other programs (EPS) or are
# not used for photos.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")

MAX_PIXELS = 100_000_000

# Raised by Pillow on malformed files: its parsers index, unpack, divide and assert on bytes of the file.
MALFORMED = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
    *(AssertionError, RuntimeError, EOFError, MemoryError, struct.error, zlib.error),
    Warning,
)

_SIXTEEN_BIT = frozenset({"I;16", "I;16L", "I;16B", "I;16N", "I"})
_UPRIGHT = {  # by EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Set once for the process, because images are decoded in threads. Our own limit replaces Pillow's, which is not
# configurable; Pillow's warnings (odd EXIF, odd TIFF tags) never name the file.
Image.MAX_IMAGE_PIXELS = None
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


@dataclass(frozen=True)
class ImageFacts:
    """Facts about an image file for the manifest: sha256, and width and height of the upright image."""

    sha256: str
    width: int
    height: int


def decode(
    path: Path, *, max_pixels: int = MAX_PIXELS, expected_sha256: str | None = None, upright: bool = True
) -> Image.Image:
    """Return an image file, possibly inside a shard, in mode RGB; only the first frame of an animation.

    Raise InputError if the file cannot be decoded. Images larger than ``max_pixels`` are refused by the size in the
    header, before any pixel is decoded. This limit does not apply if ``expected_sha256`` is given: the manifest has
    already checked the file. ``upright`` rotates the image by its EXIF orientation, as every viewer does.
    """
    data = read_bytes(path)
    if expected_sha256 is not None:
        if hashlib.sha256(data).hexdigest() != expected_sha256:
            raise unreadable(path, "changed since the manifest was made", "run dvc repro again")
        max_pixels = sys.maxsize
    return _decode_bytes(data, path, max_pixels, upright=upright)


def image_facts(path: Path, *, max_pixels: int = MAX_PIXELS) -> ImageFacts:
    """Hash and decode an image from one read of the file, so that both see the same bytes."""
    data = read_bytes(path)
    width, height = _decode_bytes(data, path, max_pixels).size
    return ImageFacts(hashlib.sha256(data).hexdigest(), width, height)


def _formats(data: bytes, path: Path) -> tuple[str, ...]:
    """Return the decoders that may run on a file; HEIC and AVIF share a header but have separate decoders."""
    if data[4:8] != b"ftyp":
        return FORMATS
    brands = data[8 : int.from_bytes(data[:4], "big")]
    if b"avif" in brands or b"avis" in brands:
        if not features.check("avif"):
            raise unreadable(path, "an AVIF image, which this Pillow cannot decode", "pip install -U pillow")
        return ("AVIF",)
    if not _register_heif():
        raise unreadable(
            path, "a HEIC image, for which no decoder is installed", "pip install 'referee-pipeline[heic]'"
        )
    return ("HEIF",)


@functools.cache
def _register_heif() -> bool:
    """Make Pillow open HEIC if the optional decoder is installed."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def _decode_bytes(data: bytes, path: Path, max_pixels: int, *, upright: bool = True) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(data), formats=_formats(data, path))
        width, height = image.size
        if width * height > max_pixels:
            raise unreadable(
                path,
                f"{width} x {height} pixels are more than the limit of {max_pixels:,}",
                "shrink the image, or raise data.max_pixels if you trust the file",
            )
        image.load()
        # After load(): the TIFF decoder then rotates the image itself, and PNG may have EXIF at its end.
        orientation = _orientation(image) if upright else 1
        rgb = _to_rgb(image)
        return rgb.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else rgb
    except UnidentifiedImageError as error:
        raise unreadable(path, "not a JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC or AVIF image") from error
    except MALFORMED as error:
        reason = str(error) or type(error).__name__
        raise unreadable(path, f"damaged or truncated image ({reason})") from error


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, or 1 if it is absent or broken: bad metadata must not reject a readable image."""
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except MALFORMED:
        return 1
    return orientation if isinstance(orientation, int) else 1


def _to_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any mode that `FORMATS` decode to in mode RGB."""
    if image.mode in _SIXTEEN_BIT:
        image = _from_sixteen_bits(image)
    elif image.mode == "F":
        image = _from_floats(image)
    elif image.has_transparency_data:
        return _over_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _from_sixteen_bits(image: Image.Image) -> Image.Image:
    """Scale 0..65535 to 0..255 (65535 = 255 · 257), where ``convert`` would clip at 255."""
    values = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _from_floats(image: Image.Image) -> Image.Image:
    """Scale [0, 1] to 0..255; if any value lies outside, clip all to 0..255 instead."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0)
    if values.min() >= 0.0 and values.max() <= 1.0:
        values = values * 255.0
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))


def _over_white(image: Image.Image) -> Image.Image:
    if image.mode == "La":  # Pillow cannot convert premultiplied grey to RGBA directly
        image = image.convert("LA")
    rgba = image.convert("RGBA")
    page = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
    return Image.alpha_composite(page, rgba).convert("RGB")
