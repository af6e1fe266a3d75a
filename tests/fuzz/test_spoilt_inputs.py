"""Hundreds of spoilt inputs of every kind in `make test`, thousands in `make test-long`: read, or one line of ours."""

import pytest

from fuzz.harness import try_inputs
from fuzz.kinds import KINDS, SUFFIXES, encoded_images
from pipeline.encoders.image_decoding import decode

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


@pytest.mark.parametrize(("times", "seed"), [(1, 0), pytest.param(20, 1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
def test_spoilt_inputs(name, times, seed, tmp_path, monkeypatch):
    prepare, count = KINDS[name]
    try_inputs(name, prepare(tmp_path, monkeypatch), times * count, seed)


def test_every_valid_image_under_every_suffix(tmp_path):
    for content in encoded_images():
        for suffix in SUFFIXES:
            (tmp_path / f"x{suffix}").write_bytes(content)
            assert decode(tmp_path / f"x{suffix}").size == (17, 13)
