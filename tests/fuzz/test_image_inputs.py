"""A corpus of malformed images: cut short, bits flipped, huge, lying, under a wrong suffix. An image, or one line."""

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from fuzz.inputs import little_memory, only_our_errors, tried
from pipeline.encoders.image_decoding import decode, read_image
from pipeline.errors import InputError

MODES = {
    "PNG": ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"],
    "JPEG": ["RGB", "L", "CMYK"],
    "WEBP": ["RGB", "RGBA"],
    "BMP": ["RGB", "L", "P"],
    "GIF": ["P", "L"],
    "TIFF": ["RGB", "L", "F", "I;16", "CMYK", "RGBA"],
}
SUFFIXES = [".png", ".jpg", ".webp", ".bmp", ".gif", ".tif"]


def encoded(form, mode):
    pixels = np.random.default_rng(0).integers(0, 256, (13, 17, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    if mode == "I;16":
        image = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    elif mode == "F":
        image = Image.fromarray(pixels[..., 0].astype(np.float32) / 255)
    else:
        image = image.convert(mode)
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


VALID = [encoded(form, mode) for form, modes in MODES.items() for mode in modes]


def spoil(content, chosen):
    """Cut, flip, splice or repeat."""
    content = bytearray(content)
    for _ in range(chosen.randint(1, 3)):
        place = chosen.randrange(len(content))
        action = chosen.randrange(5)
        if action == 0:
            del content[max(1, place) :]
        elif action == 1:
            content[place] ^= 1 << chosen.randrange(8)
        elif action == 2:
            content[place : place + 4] = chosen.randbytes(4)
        elif action == 3:
            content[place:place] = content[place : place + 30]
        else:
            other = chosen.choice(VALID)
            content[place:] = other[chosen.randrange(len(other)) :]
        if not content:
            return b"x"
    return bytes(content)


def try_images(folder, count, seed):
    chosen = random.Random(seed)
    for number in range(count):
        file = folder / f"{number % 50}{chosen.choice(SUFFIXES)}"
        file.write_bytes(spoil(chosen.choice(VALID), chosen))
        with only_our_errors("images"):
            facts = read_image(file, max_pixels=10_000)
            image = decode(file, expected_sha256=facts.sha256)
            assert image.mode == "RGB"
            assert image.width * image.height <= 10_000


def test_every_valid_one_under_every_suffix(tmp_path):
    for content in VALID:
        for suffix in SUFFIXES:
            (tmp_path / f"x{suffix}").write_bytes(content)
            assert decode(tmp_path / f"x{suffix}").size == (17, 13)
            tried["images"] += 1


def test_hundreds(tmp_path):
    with little_memory():
        try_images(tmp_path, 700, seed=0)


@pytest.mark.long
def test_thousands(tmp_path):
    with little_memory():
        try_images(tmp_path, 20_000, seed=1)


def huge_png(width, height):
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 99))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("width", "height"), [(100_000, 100_000), (2**31 - 1, 2**31 - 1), (10_001, 10_000)]
)
def test_huge_ones_are_refused_by_their_header(width, height, tmp_path):
    (tmp_path / "x.png").write_bytes(huge_png(width, height))
    with little_memory(2**28), pytest.raises(InputError, match=r"x\.png: .*(limit|bomb|larger)"):
        read_image(tmp_path / "x.png")


@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(marker) (w) file closefile\n",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
        b"GIF89a" + bytes(7), b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff",
        b"II*\0\x08\0\0\0\xff\xff", b"BM", b"RIFF\0\0\0\0WEBP", b"\0" * 9,
    ],
)  # fmt: skip
def test_no_images_at_all(content, tmp_path):
    tried["images"] += 1
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.png"):
        read_image(tmp_path / "x.png")
