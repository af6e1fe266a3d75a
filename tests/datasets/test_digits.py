"""The embedded dataset: real and rendered digits, with the same bytes for the same arguments."""

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets import digits
from pretraining.fonts import MATPLOTLIB_FONTS
from shards import files_in


@pytest.mark.parametrize(("domain", "size"), [("mnist", 28), ("uci", 32), ("print", 32)])
def test_a_domain_has_one_folder_of_grey_images_per_digit(domain, size, tmp_path):
    digits.generate(domain, tmp_path / "a", seed=0, per_class=3)
    assert len(files_in(tmp_path / "a")) == 30
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == list("0123456789")
    for path in (tmp_path / "a").rglob("*.png"):
        with Image.open(path) as image:
            assert (image.mode, image.size) == ("L", (size, size))
            pixels = np.asarray(image)
        assert pixels.max() > 150, "white ink"
        assert np.median(pixels) < 100, "on black"
    digits.generate(domain, tmp_path / "b", seed=0, per_class=3)
    assert files_in(tmp_path / "a") == files_in(tmp_path / "b")


@pytest.mark.parametrize(("collection", "count"), [(digits.mnist, 5000), (digits.uci, 1797)])
def test_all_real_images_are_used(collection, count):
    assert sum(1 for _ in collection(0, None)) == count


def test_uci_preserves_the_ink_of_the_scan():
    from sklearn.datasets import load_digits

    scans = load_digits().images
    for item in digits.uci(0, 2):
        blocks = item.pixels.reshape(8, 4, 8, 4).mean(axis=(1, 3)) / 255 * 16
        assert np.corrcoef(blocks.ravel(), scans[item.number].ravel())[0, 1] > 0.97


def test_print_depends_only_on_its_seed(tmp_path):
    digits.generate("print", tmp_path / "a", seed=1, per_class=2)
    np.random.seed(5)  # noqa: NPY002 - the global generator must not matter
    digits.generate("print", tmp_path / "b", seed=2, per_class=2)
    digits.generate("print", tmp_path / "more", seed=1, per_class=12)
    few, more = files_in(tmp_path / "a"), files_in(tmp_path / "more")
    assert few != files_in(tmp_path / "b")
    assert few.items() <= more.items(), "the first images do not depend on how many are drawn"
    assert len(set(more.values())) == 120, "all images differ"


@pytest.mark.parametrize("name", MATPLOTLIB_FONTS + digits.PRINT_FONTS)
def test_every_font_draws_ten_different_digits_and_print_shares_none_with_pretraining(name):
    assert name.startswith("DejaVu") == (name in MATPLOTLIB_FONTS) != (name in digits.PRINT_FONTS)
    images = [digits.render_glyph(c, digits.font_path(name), 32) for c in "0123456789"]
    assert len({image.tobytes() for image in images}) == 10
