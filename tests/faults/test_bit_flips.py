"""Flip bits in every kind of store: reading gives either a one-line error or exactly the same numbers.

`make test` flips one bit in every seventh byte, `make test-long` every bit of every byte.
"""

import random
import re

import pytest

from faults.tiny_stores import KINDS
from pipeline.errors import StoreError


def is_refused(store, expected):
    """Read a damaged store and return whether it was refused; fail if the content differs."""
    try:
        content = store.read()
    except StoreError as error:
        line = str(error)
        assert "\n" not in line
        assert str(store.path) in line
        assert re.search("dvc (repro|checkout|pull)", line), line
        return True
    assert content == expected, "a flipped bit changed the content unnoticed"
    return False


def flip_all(store, bits_at):
    """Flip the bits ``bits_at(position)`` one at a time; return the numbers of flips and of refused stores."""
    expected = store.read()
    flips = refused = 0
    for file in store.files():
        whole = file.read_bytes()
        for position in range(len(whole)):
            for bit in bits_at(position):
                damaged = bytearray(whole)
                damaged[position] ^= 1 << bit
                file.write_bytes(damaged)
                refused += is_refused(store, expected)
                flips += 1
                file.write_bytes(whole)  # for every flip, because a log truncates what it cannot read
        assert store.read() == expected
    return flips, refused


every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@every_kind
@pytest.mark.parametrize("scope", ["every seventh byte", pytest.param("every bit", marks=pytest.mark.long)])
def test_a_flipped_bit_is_refused_or_harmless(kind, scope, tmp_path, monkeypatch, record_property):
    store = kind(tmp_path, monkeypatch)
    size, rng = sum(file.stat().st_size for file in store.files()), random.Random(kind.__name__)
    if scope == "every bit":
        flips, refused = flip_all(store, lambda _: range(8))
        assert flips == 8 * size
    else:
        flips, refused = flip_all(store, lambda position: [] if position % 7 else [rng.randrange(8)])
        assert flips >= size // 7
        assert refused > 0.8 * flips or kind.__name__ == "progress_log"
    record_property("flips", flips)


@every_kind
def test_a_truncated_or_missing_file_is_refused_or_harmless(kind, tmp_path, monkeypatch):
    store = kind(tmp_path, monkeypatch)
    expected = store.read()
    for file in store.files():
        whole = file.read_bytes()
        for length in {0, 1, len(whole) // 2, len(whole) - 5, len(whole) - 1}:
            file.write_bytes(whole[: max(0, length)])
            is_refused(store, expected)
            file.write_bytes(whole)
        if kind.__name__ != "progress_log":
            file.unlink()
            assert is_refused(store, expected), f"the absence of {file.name} was not detected"
            file.write_bytes(whole)
