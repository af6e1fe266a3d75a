"""Image files to RGB pixels, or one line that says which file is wrong and why.

Pixels only: embedded colour profiles are ignored, as timm's and open_clip's own loaders do.
Transparency is composited over white: product shots and clip art (Office-31 amazon, Office-Home,
DomainNet) are drawn for a white page, whereas dropping the alpha channel, as a bare
``convert("RGB")`` does, uncovers whatever colour the drawing program left under transparent pixels,
often black.
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

# Only these decoders may run on a file, whatever its suffix: Pillow also opens formats that start
# other programs (EPS) or that nobody keeps photos in.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")

MAX_PIXELS = 100_000_000

# What Pillow raises on malformed files: its parsers index, unpack, divide and assert on bytes of the file.
MALFORMED = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
    *(AssertionError, RuntimeError, EOFError, MemoryError, struct.error, zlib.error),
    Warning,
)

_SIXTEEN_BIT = frozenset({"I;16", "I;16L", "I;16B", "I;16N", "I"})
_UNTURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Process-wide and once: images are decoded in threads. Our own limit replaces Pillow's, which no parameter could raise;
# its warnings (odd EXIF, odd TIFF tags) never name the file.
Image.MAX_IMAGE_PIXELS = None
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


@dataclass(frozen=True)
class ImageFacts:
    """What the manifest keeps of an image file: sha256, width and height of the upright image."""

    sha256: str
    width: int
    height: int


def decode(
    path: Path, *, max_pixels: int = MAX_PIXELS, expected_sha256: str | None = None, upright: bool = True
) -> Image.Image:
    """Return an image file, which may be inside a shard, in mode RGB; of several frames the first.

    What cannot be decoded is an `InputError` that names the file. Images larger than ``max_pixels`` are refused by the
    size in the header, before any pixel is decoded; not where ``expected_sha256``, of the manifest, shows that it was
    looked at before. ``upright`` turns the image as its EXIF orientation says, as every viewer does.
    """
    data = read_bytes(path)
    if expected_sha256 is not None:
        if hashlib.sha256(data).hexdigest() != expected_sha256:
            raise unreadable(path, "changed since the manifest was made", "run dvc repro again")
        max_pixels = sys.maxsize
    return _decode_bytes(data, path, max_pixels, upright=upright)


def image_facts(path: Path, *, max_pixels: int = MAX_PIXELS) -> ImageFacts:
    """Hash and decode an image from one read of the file, so that both concern the same bytes."""
    data = read_bytes(path)
    width, height = _decode_bytes(data, path, max_pixels).size
    return ImageFacts(hashlib.sha256(data).hexdigest(), width, height)


def _formats(data: bytes, path: Path) -> tuple[str, ...]:
    """Return the decoders that may run on a file; HEIC and AVIF, which begin alike, each have one of their own."""
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
    """Make Pillow open HEIC, if the optional decoder is there."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def _decode_bytes(data: bytes, path: Path, max_pixels: int, *, upright: bool = True) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(data), formats=_formats(data, path))  # in memory: nothing to close
        width, height = image.size
        if width * height > max_pixels:
            raise unreadable(
                path,
                f"{width} x {height} pixels are more than the limit of {max_pixels:,}",
                "shrink the image, or raise data.max_pixels if you trust the file",
            )
        image.load()
        # After load(): the TIFF decoder turns the image itself then, and PNG may keep EXIF at
        # its end.
        orientation = _orientation(image) if upright else 1
        rgb = _to_rgb(image)
        return rgb.transpose(_UNTURN[orientation]) if orientation in _UNTURN else rgb
    except UnidentifiedImageError as error:
        raise unreadable(path, "not a JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC or AVIF image") from error
    except MALFORMED as error:
        reason = str(error) or type(error).__name__
        raise unreadable(path, f"damaged or truncated image ({reason})") from error


def _orientation(image: Image.Image) -> int:
    """EXIF orientation, 1 where there is none: broken metadata must not cost a readable image."""
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except MALFORMED:
        return 1
    return orientation if isinstance(orientation, int) else 1


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert any mode that `FORMATS` decode to, to RGB; an RGB image is returned as it is."""
    if image.mode in _SIXTEEN_BIT:
        image = _from_sixteen_bits(image)
    elif image.mode == "F":
        image = _from_floats(image)
    elif image.has_transparency_data:
        return _over_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _from_sixteen_bits(image: Image.Image) -> Image.Image:
    """Scale 0..65535 to 0..255 (65535 = 255 · 257); ``convert`` would clip at 255."""
    values = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _from_floats(image: Image.Image) -> Image.Image:
    """Scale [0, 1] to 0..255; with values outside, take them as 0..255 already, and clip."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0)
    if values.min() >= 0.0 and values.max() <= 1.0:
        values = values * 255.0
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))


def _over_white(image: Image.Image) -> Image.Image:
    if image.mode == "La":  # premultiplied grey has no direct way to RGBA
        image = image.convert("LA")
    rgba = image.convert("RGBA")
    page = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
    return Image.alpha_composite(page, rgba).convert("RGB")
