"""Flip bits of every kind of store: our one line, or the very same numbers. Nothing else comes out.

`make test` flips one bit in every seventh byte, `make test-long` every bit of every byte.
"""

import random
import re

import pytest

from faults.tiny_stores import KINDS
from pipeline.errors import StoreError


def outcome(store, expected):
    """Read a damaged store; return whether it was refused, and fail on anything but the same bytes."""
    try:
        got = store.read()
    except StoreError as error:
        line = str(error)
        assert "\n" not in line
        assert str(store.path) in line
        assert re.search("dvc (repro|checkout|pull)", line), line
        return True
    assert got == expected, "a flipped bit came through as another number"
    return False


def flip_all(store, bits_of):
    """Flip, one at a time, the bits that ``bits_of(position)`` names; return how many flips, how many refused."""
    expected = store.read()
    flips = refused = 0
    for file in store.files():
        whole = file.read_bytes()
        for position in range(len(whole)):
            for bit in bits_of(position):
                damaged = bytearray(whole)
                damaged[position] ^= 1 << bit
                file.write_bytes(damaged)
                refused += outcome(store, expected)
                flips += 1
                # a log cuts off what it cannot read: put all of it back
                file.write_bytes(whole)
        assert store.read() == expected
    return flips, refused


every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@every_kind
@pytest.mark.parametrize("every", ["seventh byte", pytest.param("bit", marks=pytest.mark.long)])
def test_a_flipped_bit(kind, every, tmp_path, monkeypatch, record_property):
    store = kind(tmp_path, monkeypatch)
    size, chosen = sum(file.stat().st_size for file in store.files()), random.Random(kind.__name__)
    if every == "bit":
        flips, refused = flip_all(store, lambda _: range(8))
        assert flips == 8 * size
    else:
        flips, refused = flip_all(store, lambda at: [] if at % 7 else [chosen.randrange(8)])
        assert flips >= size // 7
        assert refused > 0.8 * flips or kind.__name__ == "progress_log"
    record_property("flips", flips)


@every_kind
def test_cut_short_at_any_length(kind, tmp_path, monkeypatch):
    store = kind(tmp_path, monkeypatch)
    expected = store.read()
    for file in store.files():
        whole = file.read_bytes()
        for kept in {0, 1, len(whole) // 2, len(whole) - 5, len(whole) - 1}:
            file.write_bytes(whole[: max(0, kept)])
            outcome(store, expected)
            file.write_bytes(whole)
        if kind.__name__ != "progress_log":
            file.unlink()
            assert outcome(store, expected), f"{file.name} was not missed"
            file.write_bytes(whole)
