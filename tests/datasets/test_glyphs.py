import numpy as np
import pytest

from pipeline.datasets import digits


def test_no_font_family_is_both_trained_on_and_held_out():
    def family(name):
        return next(known for known in ("DejaVu", "STIX", "cm") if name.startswith(known))

    trained = {family(name) for name in digits.PRETRAINING_FONTS}
    assert trained == {"DejaVu"}
    assert trained.isdisjoint(family(name) for name in digits.PRINT_FONTS)


@pytest.mark.parametrize("name", digits.PRETRAINING_FONTS + digits.PRINT_FONTS)
def test_every_font_draws_ten_different_digits(name):
    drawn = [digits.render_glyph(c, digits.font_path(name), 32) for c in "0123456789"]
    assert len({image.tobytes() for image in drawn}) == 10


def test_a_glyph_is_white_on_black_centred_and_fills_its_share():
    image = digits.render_glyph("8", digits.font_path("DejaVuSans.ttf"), 100, fill=0.6)
    assert (image.shape, image.dtype, image.max()) == ((100, 100), np.uint8, 255)
    rows, columns = (np.flatnonzero(image.max(axis=axis) > 127) for axis in (1, 0))
    assert image[0].max() == 0
    assert abs(rows.min() + rows.max() - 99) <= 3
    assert abs(columns.min() + columns.max() - 99) <= 3
    assert abs((rows.max() - rows.min() + 1) - 60) <= 4
