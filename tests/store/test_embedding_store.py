"""Embedding stores: files and rows equal zarr-python's, and damage raises an error instead of giving wrong numbers."""

import errno
import json
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
import zarr.core.sync as zarr_sync
import zarr.storage._local as local

from pipeline.errors import StoreError
from pipeline.store import embedding_store
from pipeline.store.array_layout import sharded_rows
from pipeline.store.embedding_store import SCHEMA, EmbeddedView, StoredRows, open_embeddings, rows_of, write_embeddings
from shards import files_in

ROWS, WIDTH, SHARD, CHUNK = 301, 6, 128, 32
VIEWS = ("original", "zeros")


def values(dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(dtype)


def write(path: Path, x: np.ndarray, *, block: int = SHARD) -> None:
    blocks = [x[i : i + block] for i in range(0, len(x), block)]
    rows = EmbeddedView(*x.shape, str(x.dtype), {"wavelet": "haar"}, blocks)
    write_embeddings(path, dict.fromkeys(VIEWS, rows), {"domain": "a", "weights": "w1"})


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(embedding_store, "SHARD_ROWS", SHARD)
    monkeypatch.setattr(embedding_store, "CHUNK_ROWS", CHUNK)


@pytest.fixture
def store(tmp_path):
    write(tmp_path / "a.zarr", values())
    return open_embeddings(tmp_path / "a.zarr")


def write_by_zarr(folder: Path, x: np.ndarray, **options) -> None:
    array = zarr.create_array(
        folder, shape=x.shape, dtype=x.dtype, chunks=(CHUNK, WIDTH), shards=(SHARD, WIDTH), fill_value=float("nan"),
        **{"compressors": zarr.codecs.Crc32cCodec(), "attributes": {"wavelet": "haar"}} | options,
    )  # fmt: skip
    array[...] = x


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("block", [SHARD, 1, 50, ROWS])
def test_files_equal_those_written_by_zarr_python(tmp_path, dtype, block):
    """The same rows give the same bytes, whatever the size of the blocks in which they arrive."""
    x = values(dtype)
    write(tmp_path / "ours.zarr", x, block=block)
    write_by_zarr(tmp_path / "reference", x)
    for view in VIEWS:
        assert files_in(tmp_path / "ours.zarr" / view) == files_in(tmp_path / "reference")
    assert len(files_in(tmp_path / "ours.zarr")) == 1 + 2 * (1 + 3), "few files: metadata, three shards per view"
    assert zarr.open_group(tmp_path / "ours.zarr", mode="r").attrs["domain"] == "a"


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    """Control-C arrives in our thread while a Zarr thread writes a shard."""
    put, wait, interrupts = local._put, zarr_sync.wait, []

    def slow_put(path, value, exclusive=False):
        time.sleep(0.2 * (path.name != "zarr.json"))
        return put(path, value, exclusive)

    def interrupted_once(futures, **options):
        time.sleep(0.05)  # by then the metadata is written, but not the shard
        if not interrupts and not all(future.done() for future in futures):
            interrupts.append(futures)
            raise KeyboardInterrupt
        return wait(futures, **options)

    monkeypatch.setattr(local, "_put", slow_put)
    monkeypatch.setattr(zarr_sync, "wait", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.zarr", values())
    time.sleep(0.5)
    assert interrupts
    assert not list(tmp_path.iterdir())


def test_rows_survive_a_round_trip(store):
    x = values()
    assert (store.rows, store.width, store.views) == (ROWS, WIDTH, VIEWS)
    assert np.array_equal(np.concatenate(list(store.blocks("original"))), x)
    for start, stop in ((0, None), (0, 0), (0, 1), (31, 33), (32, 64), (100, 290), (127, 129), (300, 301)):
        assert store.read("zeros", start, stop).tobytes() == x[start:stop].tobytes()
    for start, stop in ((-3, None), (290, 400), (50, 20), (400, 500)):
        assert np.array_equal(store.read("original", start, stop), x[start:stop])
    assert store.settings("zeros") == {"wavelet": "haar"}
    assert store.provenance["weights"] == "w1"


@pytest.mark.parametrize(
    "change",
    [
        lambda layout: layout.update(data_type="int16"),  # unused in all stores
        lambda layout: layout.update(data_type="int64"),  # unused in embeddings
        lambda layout: layout["codecs"][0]["configuration"].update(index_location="start"),
        lambda layout: layout.pop("shape"),
        lambda layout: layout.update(codecs=[]),
    ],
)
def test_another_layout_is_refused(store, change):
    folder = store.path / "original"
    layout = json.loads((folder / "zarr.json").read_text())
    sharded_rows(folder, layout)
    change(layout)
    with pytest.raises(ValueError, match="another layout"):
        sharded_rows(folder, layout)


def test_a_missing_view_or_store_is_an_error(store, tmp_path):
    with pytest.raises(StoreError, match="has no view 'rand'"):
        store.read("rand")
    with pytest.raises(StoreError, match=r"no such store; run dvc repro or dvc pull"):
        open_embeddings(tmp_path / "b.zarr")


def test_a_missing_shard_and_another_schema_version_are_refused_with_a_remedy(store, monkeypatch):
    remedy = rf"rm -r {store.path} && dvc"
    with monkeypatch.context() as patch:
        patch.setattr(embedding_store, "SCHEMA", "referee-embeddings/3")
        with pytest.raises(StoreError, match=rf"^{store.path}: schema '{SCHEMA}'.*'referee-embeddings/3'.*{remedy}"):
            open_embeddings(store.path)
    (store.path / "zeros/c/1/0").unlink()
    with pytest.raises(StoreError, match=rf"^{store.path}/zeros: .*2 files instead of 3.*{remedy} checkout"):
        open_embeddings(store.path)


def test_a_mismatch_names_both_values(store, tmp_path):
    store.require({"weights": "w1"})
    with pytest.raises(StoreError, match=r"a\.zarr: .*'w1'.*'w2'.*dvc"):
        store.require({"weights": "w2"})
    store.require_backbone({"weights": "w1"}, tmp_path / "b.zarr")
    with pytest.raises(StoreError, match=r"a\.zarr: .*'w1'.*b\.zarr.*'w2'.*dvc repro"):
        store.require_backbone({"weights": "w2"}, tmp_path / "b.zarr")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_rows_are_refused_without_leftovers(store, tmp_path, bad):
    x, old_files = values(), files_in(store.path)
    x[200, 3] = bad
    with pytest.raises(StoreError, match=r"row 200: the embedding is not finite .*stored_as: float32"):
        write(store.path, x)
    assert files_in(store.path) == old_files
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES])
def test_errors_of_the_machine_are_not_reported_as_damage(store, monkeypatch, code):
    """People would remove a store that is called damaged."""

    def refuse(*_args, **_options):
        raise OSError(code, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match="no") as error:
        store.read("original")
    assert error.value.errno == code


@pytest.mark.parametrize("index", [[], [0], [300], [31, 32], [5, 190, 299], list(range(0, ROWS, 7))])
def test_stored_rows_equal_the_rows_of_the_array(store, index):
    rows, odd = StoredRows(store, "original", np.arange(ROWS)), np.arange(1, ROWS, 2)
    index = np.array(index, dtype=np.intp)
    np.testing.assert_array_equal(rows[index], values()[index])
    subset = rows.take(odd).take(np.array([10, 120]))
    np.testing.assert_array_equal(subset[np.arange(2)], values()[[21, 241]])
    assert (rows.shape, subset.shape) == ((ROWS, WIDTH), (2, WIDTH))


def test_only_needed_chunks_are_read(store, monkeypatch):
    spans, read = [], type(store).read
    monkeypatch.setattr(type(store), "read", lambda self, v, a=0, b=None: spans.append((a, b)) or read(self, v, a, b))
    StoredRows(store, "original", np.arange(ROWS))[np.array([3, 9, 250])]
    assert spans == [(3, 10), (250, 251)]


def test_small_views_are_arrays_and_large_ones_are_lazy(store, monkeypatch):
    np.testing.assert_array_equal(rows_of(store, "original"), values())
    assert isinstance(rows_of(store, "original", lazy=True), StoredRows)
    monkeypatch.setattr(embedding_store, "WHOLE_BYTES", values().nbytes - 1)
    assert isinstance(rows_of(store, "original"), StoredRows)
