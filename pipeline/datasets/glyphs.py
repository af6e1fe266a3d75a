"""Printed characters: which fonts draw them, and how one is drawn.

Only fonts inside the matplotlib package are named here, so that a fresh clone can render without
installing a font. They are split by whole family: what draws the domain ``print`` never drew an
image of the pretraining, nor did a bold or italic cut of the same design.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pipeline.errors import InputError

# The DejaVu family. The pretraining adds fonts that are not in matplotlib: pretraining/fonts.py.
PRETRAINING_FONTS: tuple[str, ...] = tuple(
    f"DejaVu{family}{cut}.ttf"
    for family, slanted in (("Sans", "Oblique"), ("SansMono", "Oblique"), ("Serif", "Italic"))
    for cut in ("", "-Bold", f"-{slanted}", f"-Bold{slanted}")
)

# The Computer Modern and STIX families: serif, sans, typewriter, bold, italic.
PRINT_FONTS: tuple[str, ...] = (
    *(f"cm{cut}10.ttf" for cut in ("r", "b", "ss", "ti", "tt")),
    *(f"STIXGeneral{cut}.ttf" for cut in ("", "Bol", "Italic", "BolIta")),
)


def font_path(name: str) -> Path:
    """Return the path of the font file `name` inside matplotlib."""
    import matplotlib as mpl  # a tenth of a second, and stage `code` imports every stage

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
    """Draw one character, white ink on black, its ink box centred in the square (size, size).

    The longer side of the ink box takes the share ``fill``; ``stroke`` makes the outline thicker within it.

    Returns
    -------
    ndarray of shape (size, size)
    """
    points = size
    for _ in range(2):  # ink height is nearly proportional to the point size: two passes suffice
        left, top, right, bottom = _open_font(path, points).getbbox(character, stroke_width=stroke)
        longer = max(right - left, bottom - top, 1)
        points = max(4, round(points * fill * size / longer))
    font = _open_font(path, points)
    left, top, right, bottom = font.getbbox(character, stroke_width=stroke)
    canvas = Image.new("L", (size, size), 0)
    corner = ((size - right - left) / 2, (size - bottom - top) / 2)
    ImageDraw.Draw(canvas).text(corner, character, fill=255, font=font, stroke_width=stroke)
    return np.asarray(canvas)
