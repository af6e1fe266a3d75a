"""Decoding images of all supported formats, and error messages for broken ones."""

import hashlib
import struct
import sys

import numpy as np
import pytest
from PIL import Image

from pipeline.encoders import image_decoding
from pipeline.encoders.image_decoding import decode, image_facts
from pipeline.errors import InputError
from pipeline.image_files.read import IMAGE_SUFFIXES

FORMATS = ("jpg", "png", "webp", "bmp", "gif", "tiff", "avif", "heic")


def photo(width=40, height=30):
    """Return a smooth coloured image without symmetry."""
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    channels = (255 * x, 255 * y, 255 * (1 - x) * y)
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def assert_unreadable(path, expected):
    """Check that reading an image raises a one-line InputError with its path and the remedy."""
    with pytest.raises(InputError, match=expected) as error:
        image_facts(path)
    message = str(error.value)
    assert "\n" not in message
    assert f"{path}: " in message
    assert "; " in message


def difference(path):
    """Return the difference in grey levels between the decoded file and `photo`, (30, 40, 3)."""
    return np.abs(np.asarray(decode(path), dtype=int) - np.asarray(photo(), dtype=int))


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_is_decoded_and_truncation_is_an_error(tmp_path, suffix):
    path = tmp_path / f"photo.{suffix}"
    if suffix == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    photo().save(path)
    assert decode(path).mode == "RGB"
    assert difference(path).mean() < 12  # GIF has 256 colours
    if suffix in ("png", "bmp", "tiff"):
        assert difference(path).max() == 0
    assert path.suffix in IMAGE_SUFFIXES
    photo(120, 90).save(path)
    whole = path.read_bytes()
    for kept in (0.02, 0.6):
        path.write_bytes(whole[: int(len(whole) * kept)])
        assert_unreadable(path, "replace or remove")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
def test_exif_orientation_is_applied(tmp_path, orientation, suffix):
    turned = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation](np.asarray(photo()))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{suffix}"
    options = {"quality": 95} if suffix == "jpg" else {"lossless": True} if suffix == "webp" else {}
    Image.fromarray(np.ascontiguousarray(turned)).save(path, exif=exif, **options)
    assert difference(path).mean() < (4 if suffix == "jpg" else 1e-9)
    if suffix != "tiff":  # whose decoder turns the image itself
        assert decode(path, upright=False).size == turned.shape[1::-1]


# as in the module, whose filter pytest overrides
@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_an_image_with_broken_exif_is_decoded(tmp_path):
    path = tmp_path / "exif.jpg"
    photo().save(path, exif=b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff")
    assert decode(path).size == (40, 30)


WHITE = (255, 255, 255)


@pytest.mark.parametrize(
    ("suffix", "mode", "colours", "expected"),
    [
        # black under alpha 0 must not show; alpha 128 is half way to white
        ("png", "RGBA", [(0, 0, 0, 0), (255, 0, 0, 255), (0, 0, 0, 128)], [WHITE, (255, 0, 0), (127, 127, 127)]),
        ("png", "LA", [(10, 0), (10, 255)], [WHITE, (10, 10, 10)]),
        ("png", "P", [0, 1], [WHITE, (0, 0, 255)]),
        ("gif", "P", [0, 1], [WHITE, (0, 0, 255)]),
    ],
)
def test_transparent_pixels_become_white(tmp_path, suffix, mode, colours, expected):
    path, options = tmp_path / f"x.{suffix}", {}
    image = Image.new(mode, (len(colours), 1))
    if mode == "P":
        image.putpalette([0, 0, 0, 0, 0, 255])
        options["transparency"] = 0
    image.putdata(colours)
    image.save(path, **options)
    assert list(decode(path).get_flattened_data()) == expected


@pytest.mark.parametrize(
    ("suffix", "stored", "expected"),
    [
        *((suffix, np.uint16([0, 256, 257, 32768, 65535]), [0, 1, 1, 128, 255]) for suffix in ("png", "tiff")),
        ("tiff", np.float32([0.0, 0.5, 1.0, np.nan]), [0, 128, 255, 0]),
        ("tiff", np.float32([-3.0, 100.0, 300.0]), [0, 100, 255]),
    ],
)
def test_sixteen_bits_and_floats_are_scaled_to_bytes(tmp_path, suffix, stored, expected):
    path = tmp_path / f"deep.{suffix}"
    Image.fromarray(stored[None]).save(path)
    with Image.open(path) as image:
        assert image.mode[0] in "IF"
    assert np.asarray(decode(path)).tolist() == [[[level] * 3 for level in expected]]


def test_cmyk_jpeg_is_not_inverted(tmp_path):
    photo().convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    with Image.open(tmp_path / "cmyk.jpg") as stored:
        assert stored.mode == "CMYK"
    assert difference(tmp_path / "cmyk.jpg").mean() < 4


def test_the_first_frame_of_an_animation_is_decoded(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    for suffix in ("gif", "webp", "tiff"):
        path = tmp_path / f"frames.{suffix}"
        options = {"lossless": True} if suffix == "webp" else {}
        frames[0].save(path, save_all=True, append_images=frames[1:], **options)
        assert decode(path).getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"<html>404</html>", "not a JPEG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a JPEG"),
        (None, "no such file"),
    ],
)
def test_a_file_that_is_not_an_image_is_named_with_the_reason(tmp_path, content, reason):
    path = tmp_path / "x.jpg"
    if content is not None:
        path.write_bytes(content)
    assert_unreadable(path, reason)
    assert_unreadable(tmp_path, "folder")


def test_max_pixels_does_not_apply_to_images_checked_by_the_manifest(tmp_path):
    path = tmp_path / "a.png"
    photo().save(path)
    facts = image_facts(path)
    assert facts.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (facts.width, facts.height) == (40, 30)
    with pytest.raises(InputError, match="more than the limit of 1,000"):
        decode(path, max_pixels=1000)
    assert decode(path, max_pixels=1000, expected_sha256=facts.sha256).size == (40, 30)
    with pytest.raises(InputError, match=r"changed since.*dvc repro"):
        decode(path, expected_sha256="0" * 64)


@pytest.mark.parametrize(
    ("brand", "remedy"), [(b"heic", r"pip install .*\[heic\]"), (b"avif", "pip install -U pillow")]
)
def test_an_image_whose_optional_decoder_is_absent_is_an_error_with_a_remedy(tmp_path, monkeypatch, brand, remedy):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(image_decoding.features, "check", lambda _: False)
    image_decoding._register_heif.cache_clear()
    path = tmp_path / "photo.jpg"  # the content decides, not the suffix
    path.write_bytes(struct.pack(">I", 24) + b"ftyp" + brand + bytes(4) + b"mif1" + brand)
    assert_unreadable(path, remedy)
    image_decoding._register_heif.cache_clear()
