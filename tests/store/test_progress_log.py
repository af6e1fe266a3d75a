"""The log of embedded rows: appended rows are found again, even if the process was killed."""

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
def test_a_log_truncated_anywhere_keeps_its_complete_blocks_and_accepts_new_ones(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("log")
    ends = []
    with open_log(folder) as log:
        for i in range(4):
            log.append([digest(i)], rows(i))
            ends.append((folder / "a.rows").stat().st_size)
    file = folder / "a.rows"
    file.write_bytes(file.read_bytes()[:cut])
    complete = sum(end <= cut for end in ends)
    with open_log(folder) as log:
        assert [digest(i) in log for i in range(4)] == [i < complete for i in range(4)]
        log.append([digest(7)], rows(7))
    with open_log(folder) as log:
        assert np.array_equal(log.gather([*map(digest, range(complete)), digest(7)]), rows(*range(complete), 7))


def test_two_writers_of_one_log_are_refused(tmp_path):
    with open_log(tmp_path), pytest.raises(StoreError, match="another process is extracting"):
        open_log(tmp_path)


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=5),
    order=st.lists(st.integers(min_value=0, max_value=99), min_size=1, max_size=30),
    two_writers=st.booleans(),
)
def test_rows_are_read_in_any_order_from_all_files_and_only_the_own_file_is_written(
    tmp_path_factory, blocks, order, two_writers
):
    folder, n = tmp_path_factory.mktemp("log"), 0
    for number, size in enumerate(blocks):
        with open_log(folder, "b" if two_writers and number % 2 else "a") as log:
            numbers = range(n, n + size)
            log.append([digest(i) for i in numbers], rows(*numbers))
            n += size
    indices, before = [i % n for i in order], files_in(folder)
    with open_log(folder, "c") as log:
        assert np.array_equal(log.gather(map(digest, indices)), rows(*indices))
        assert np.array_equal(log.gather(map(digest, range(n))), rows(*range(n)))
        log.append([digest(n)], rows(n))
    assert before.items() <= files_in(folder).items()
