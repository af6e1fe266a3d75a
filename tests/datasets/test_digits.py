import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets import digits
from pipeline.errors import InputError


def contents(folder: Path) -> dict[str, str]:
    """Relative path to hash, of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("domain", "size"), [("mnist", 28), ("uci", 32), ("print", 32)])
def test_a_domain_is_one_folder_of_grey_images_per_digit(
    domain: str, size: int, tmp_path: Path
) -> None:
    folder = tmp_path / domain
    assert digits.generate(domain, folder, seed=0, per_class=3) == 30
    assert sorted(p.name for p in folder.iterdir()) == list("0123456789")
    for path in folder.rglob("*.png"):
        with Image.open(path) as image:
            assert image.mode == "L"
            assert image.size == (size, size)
            pixels = np.asarray(image)
        assert pixels.max() > 150, "white ink"
        assert np.median(pixels) < 100, "on black"


@pytest.mark.parametrize(("domain", "count"), [("mnist", 5000), ("uci", 1797)])
def test_all_real_images_are_there(domain: str, count: int) -> None:
    collection = {"mnist": digits.mnist, "uci": digits.uci}[domain]
    assert sum(1 for _ in collection(0, None)) == count


def test_uci_keeps_the_ink_of_the_scan(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    scans = load_digits().images
    for item in digits.uci(0, 2):
        blocks = item.pixels.reshape(8, 4, 8, 4).mean(axis=(1, 3)) / 255 * 16
        assert np.corrcoef(blocks.ravel(), scans[item.number].ravel())[0, 1] > 0.97


@pytest.mark.parametrize("domain", digits.DOMAINS)
def test_the_same_arguments_write_the_same_bytes(domain: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        digits.generate(domain, tmp_path / name, seed=3, per_class=2)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_another_seed_draws_other_print_and_the_global_generator_none(tmp_path: Path) -> None:
    digits.generate("print", tmp_path / "a", seed=1, per_class=2)
    np.random.seed(5)  # noqa: NPY002 - what must not matter
    digits.generate("print", tmp_path / "b", seed=2, per_class=2)
    digits.generate("print", tmp_path / "c", seed=1, per_class=2)
    assert contents(tmp_path / "a") != contents(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "c")


def test_print_images_all_differ_and_do_not_depend_on_how_many_are_drawn(tmp_path: Path) -> None:
    digits.generate("print", tmp_path / "few", seed=0, per_class=2)
    digits.generate("print", tmp_path / "more", seed=0, per_class=12)
    few, more = contents(tmp_path / "few"), contents(tmp_path / "more")
    assert len(set(more.values())) == 120
    assert few.items() <= more.items()


def test_an_interrupted_run_leaves_no_domain_and_the_next_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops_early(seed: int, per_class: int | None) -> Iterator[digits.Digit]:
        for count, item in enumerate(digits.printed(seed, per_class)):
            if count == 7:
                raise KeyboardInterrupt
            yield item

    folder = tmp_path / "print"
    with monkeypatch.context() as patch:
        patch.setitem(digits._COLLECTIONS, "print", stops_early)
        with pytest.raises(KeyboardInterrupt):
            digits.generate("print", folder, seed=0, per_class=2)
    assert not folder.exists()
    digits.generate("print", folder, seed=0, per_class=2)
    assert len(contents(folder)) == 20
    assert [p.name for p in tmp_path.iterdir()] == ["print"], "nothing left aside"


def test_an_interrupted_run_keeps_the_domain_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "print"
    digits.generate("print", folder, seed=0, per_class=1)
    before = contents(folder)

    def fails(seed: int, per_class: int | None) -> Iterator[digits.Digit]:
        yield next(digits.printed(seed, per_class))
        raise OSError("disk full")

    monkeypatch.setitem(digits._COLLECTIONS, "print", fails)
    with pytest.raises(OSError, match="disk full"):
        digits.generate("print", folder, seed=9, per_class=1)
    assert contents(folder) == before


def test_generating_again_replaces_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "uci"
    digits.generate("uci", folder, seed=0, per_class=2)
    (folder / "0" / "stray.png").write_bytes(b"")
    digits.generate("uci", folder, seed=0, per_class=1)
    assert len(contents(folder)) == 10


def test_an_unknown_domain_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'svhn'.*mnist, uci, print"):
        digits.generate("svhn", tmp_path / "svhn", seed=0, per_class=None)
    assert not list(tmp_path.iterdir())


def test_a_useless_count_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="per_class is 0"):
        digits.generate("uci", tmp_path / "uci", seed=0, per_class=0)
