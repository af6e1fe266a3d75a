import numpy as np
import pytest

from pipeline.datasets import glyphs
from pipeline.errors import InputError

ALL_FONTS = glyphs.PRETRAINING_FONTS + glyphs.PRINT_FONTS


def family(name: str) -> str:
    """DejaVuSans-Bold.ttf and DejaVuSerif.ttf are DejaVu; cmr10.ttf is cm; STIXGeneral.ttf STIX."""
    return next(known for known in ("DejaVu", "STIX", "cm") if name.startswith(known))


def test_no_family_is_both_trained_on_and_held_out() -> None:
    trained = {family(name) for name in glyphs.PRETRAINING_FONTS}
    held_out = {family(name) for name in glyphs.PRINT_FONTS}
    assert trained
    assert held_out
    assert not trained & held_out


@pytest.mark.parametrize("name", ALL_FONTS)
def test_every_font_draws_ten_different_digits(name: str) -> None:
    drawn = [glyphs.render_glyph(c, glyphs.font_path(name), 32) for c in "0123456789"]
    assert len({image.tobytes() for image in drawn}) == 10


def test_a_glyph_is_white_on_black_centred_and_fills_its_share() -> None:
    image = glyphs.render_glyph("8", glyphs.font_path("DejaVuSans.ttf"), 100, fill=0.6)
    assert image.shape == (100, 100)
    assert image.dtype == np.uint8
    rows, columns = (np.flatnonzero(image.max(axis=axis) > 127) for axis in (1, 0))
    assert image.max() == 255
    assert image[0].max() == 0
    assert abs(rows.min() + rows.max() - 99) <= 3
    assert abs(columns.min() + columns.max() - 99) <= 3
    assert abs((rows.max() - rows.min() + 1) - 60) <= 4


def test_a_stroke_adds_ink_within_the_same_box() -> None:
    path = glyphs.font_path("DejaVuSans.ttf")
    plain = glyphs.render_glyph("7", path, 128, fill=0.7)
    thick = glyphs.render_glyph("7", path, 128, fill=0.7, stroke=3)
    assert thick.astype(int).sum() > 1.2 * plain.astype(int).sum()
    rows = np.flatnonzero(thick.max(axis=1) > 127)
    assert rows.max() - rows.min() + 1 <= 0.75 * 128


def test_an_unknown_font_is_named_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"Nothing\.ttf .* constraints\.txt"):
        glyphs.font_path("Nothing.ttf")
