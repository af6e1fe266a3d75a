"""The log of embedded rows: what was appended is found again, whatever happened to the process."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import StoreError
from pipeline.store.progress_log import ProgressLog
from shards import files_in

WIDTH = 5


def digest(i: int) -> bytes:
    return hashlib.sha256(str(i).encode()).digest()


def rows(*numbers: int) -> np.ndarray:
    return np.array([[n + k / 8 for k in range(WIDTH)] for n in numbers], dtype=np.float16)


def open_log(folder: Path, writer: str = "a") -> ProgressLog:
    return ProgressLog(folder, writer, width=WIDTH, dtype="float16")


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=0, max_value=400))
def test_a_log_cut_anywhere_keeps_its_whole_blocks_and_takes_new_ones(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("log")
    ends = []
    with open_log(folder) as log:
        for i in range(4):
            log.append([digest(i)], rows(i))
            ends.append((folder / "a.rows").stat().st_size)
    file = folder / "a.rows"
    file.write_bytes(file.read_bytes()[:cut])
    kept = sum(end <= cut for end in ends)
    with open_log(folder) as log:
        assert [digest(i) in log for i in range(4)] == [i < kept for i in range(4)]
        log.append([digest(7)], rows(7))
    with open_log(folder) as log:
        assert np.array_equal(log.gather([*map(digest, range(kept)), digest(7)]), rows(*range(kept), 7))


def test_two_writers_of_one_log_are_refused(tmp_path):
    with open_log(tmp_path), pytest.raises(StoreError, match="another process is extracting"):
        open_log(tmp_path)


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=5),
    asked=st.lists(st.integers(min_value=0, max_value=99), min_size=1, max_size=30),
    other=st.booleans(),
)
def test_rows_come_back_in_any_order_from_any_file_and_those_of_another_writer_are_left_alone(
    tmp_path_factory, blocks, asked, other
):
    folder, n = tmp_path_factory.mktemp("log"), 0
    for number, size in enumerate(blocks):  # neighbours are read together: by block, file and order
        with open_log(folder, "b" if other and number % 2 else "a") as log:
            numbers = range(n, n + size)
            log.append([digest(i) for i in numbers], rows(*numbers))
            n += size
    chosen, before = [i % n for i in asked], files_in(folder)
    with open_log(folder, "mine") as log:
        assert np.array_equal(log.gather(map(digest, chosen)), rows(*chosen))
        assert np.array_equal(log.gather(map(digest, range(n))), rows(*range(n)))
        log.append([digest(n)], rows(n))
    assert before.items() <= files_in(folder).items()
