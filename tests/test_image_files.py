"""Images inside shards: the original bytes, read by many threads and in any order."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cachetools import LRUCache, cached

from pipeline.encoders.image_decoding import decode
from pipeline.errors import InputError
from pipeline.image_files import parquet_file, read
from pipeline.image_files.read import file_of, read_bytes, row_path
from shards import write_parquet, write_tar

CONTENT = [bytes([i]) * (i + 1) for i in range(50)]


def shard(folder, form):
    """Write the images to a shard and return their paths."""
    if form == "tar":
        file = write_tar(folder / "x.tar", {f"c/{i}.png": data for i, data in enumerate(CONTENT)})
        return [file / f"c/{i}.png" for i in range(len(CONTENT))]
    file = write_parquet(folder / "x.parquet", CONTENT, rows_per_group=7)
    return [row_path(file, "image", i) for i in range(len(CONTENT))]


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_many_threads_read_in_any_order_with_a_small_cache(tmp_path, form, monkeypatch):
    paths = shard(tmp_path, form)
    cache = LRUCache(300, getsizeof=lambda images: images.nbytes)
    read_group = parquet_file._read_group.__wrapped__
    monkeypatch.setattr(parquet_file, "_read_group", cached(cache, condition=threading.Condition())(read_group))
    order = random.Random(0).sample(range(50), 50) * 4
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read_bytes, [paths[i] for i in order])) == [CONTENT[i] for i in order]
    assert file_of(paths[0]) == tmp_path / f"x.{form}"


def test_threads_read_a_row_group_once_even_if_it_exceeds_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "CACHE_BYTES", 1)
    paths = shard(tmp_path, "parquet")
    calls = []
    opened = parquet_file._opened
    monkeypatch.setattr(parquet_file, "_opened", lambda *arguments: calls.append(arguments) or opened(*arguments))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read_bytes, paths[:7] * 4))
    assert len(calls) == 2  # the metadata and the first row group


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_a_shard_that_changed_is_read_again(tmp_path, form):
    path = shard(tmp_path, form)[0]
    assert read_bytes(path) == CONTENT[0]
    if form == "tar":
        write_tar(tmp_path / "x.tar", {"c/other.png": b"123", "c/0.png": b"new"})
    else:
        write_parquet(tmp_path / "x.parquet", [b"new"])
    assert read_bytes(path) == b"new"
    with pytest.raises(InputError, match=r"00\b|0\.png: changed since the manifest"):
        decode(path, expected_sha256="0" * 64)


def test_a_missing_empty_or_huge_image_in_a_shard_is_one_line(tmp_path, monkeypatch):
    write_tar(tmp_path / "x.tar", {"a.png": b"", "b.png": b"1234"})
    write_parquet(tmp_path / "x.parquet", [None, b"12"])
    for name in ("x.tar/no.png", "x.parquet/image/00000009", "x.parquet/image/00000000"):
        with pytest.raises(InputError, match=rf"{name}: x\.\w+ has no image there; .*manifest"):
            read_bytes(tmp_path / name)
    with pytest.raises(InputError, match=r"a\.png: the file is empty"):
        read_bytes(tmp_path / "x.tar/a.png")
    monkeypatch.setattr(read, "MAX_FILE_BYTES", 3)
    with pytest.raises(InputError, match=r"b\.png: 4 bytes are more"):
        read_bytes(tmp_path / "x.tar/b.png")
    monkeypatch.setattr(parquet_file, "MAX_GROUP_BYTES", 1)
    write_parquet(tmp_path / "y.parquet", [b"12"])
    with pytest.raises(InputError, match=r"y\.parquet: row group 0 .*row_group_size"):
        read_bytes(tmp_path / "y.parquet/image/00000000")


def test_a_column_of_bytes_is_a_column_of_images(tmp_path):
    pq.write_table(pa.table({"jpg": pa.array([b"1", b"2"])}), tmp_path / "x.parquet")
    assert read_bytes(tmp_path / "x.parquet/jpg/00000001") == b"2"


def test_a_folder_may_be_named_like_a_shard(tmp_path):
    (tmp_path / "old.tar").mkdir()
    (tmp_path / "old.tar/1.png").write_bytes(b"x")
    assert read_bytes(tmp_path / "old.tar/1.png") == b"x"
