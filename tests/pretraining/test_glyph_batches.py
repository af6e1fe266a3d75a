"""The glyphs and captions of the pretraining, without training."""

import pytest
import torch

from pipeline.datasets import digits
from pretraining import captions, fonts
from pretraining.glyph_bank import GlyphBank, build_bank
from pretraining.glyph_batches import GlyphBatches


@pytest.fixture(scope="module")
def bank() -> GlyphBank:
    font_files = [digits.font_path("DejaVuSans.ttf"), digits.font_path("DejaVuSerif.ttf")]
    return build_bank(font_files, captions.CHARACTERS)


def test_batches_are_white_on_black_and_vary(bank: GlyphBank) -> None:
    batch = GlyphBatches(bank, seed=0, digit_share=0.7).draw(64)
    assert batch.images.shape == (64, 1, 64, 64)
    assert batch.images.min() >= 0
    assert batch.images.max() <= 1
    assert batch.images.mean() < 0.5
    assert (batch.images.amax(dim=(1, 2, 3)) > 0.3).float().mean() > 0.95
    assert len(batch.images.flatten(1).unique(dim=0)) == 64


def test_batches_depend_on_the_seed_but_not_on_the_global_generator(bank: GlyphBank) -> None:
    first = GlyphBatches(bank, seed=1, digit_share=0.7).draw(16)
    torch.manual_seed(99)
    again = GlyphBatches(bank, seed=1, digit_share=0.7).draw(16)
    other = GlyphBatches(bank, seed=2, digit_share=0.7).draw(16)
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)


def test_the_62_characters_have_one_class_each_and_captions_distinguish_classes() -> None:
    assert len({character for character, _ in captions.CHARACTERS}) == 62
    assert len(captions.CHARACTERS) == 62
    class_of: dict[str, int] = {}
    for index in range(captions.CLASS_COUNT):
        for caption in captions.captions_of(index):
            assert class_of.setdefault(caption, index) == index, caption
    assert class_of["a photo of the digit seven"] == 7
    assert not any("hand" in caption for caption in class_of)


def test_no_held_out_font_is_listed_for_the_pretraining() -> None:
    names = {line.split("/")[-1].lower() for line in fonts.LIST.read_text().splitlines()}
    assert len(names) > 200
    relatives = ("stix", "cm", "lmroman", "liberationserif", "nimbusroman", "freeserif", "tinos")
    assert not [name for name in names if name.startswith(relatives)]
