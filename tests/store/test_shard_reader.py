"""Reading shards directly against zarr-python, the general way: equal rows, equal refusals."""

import json

import numpy as np
import pytest
import zarr

from pipeline.errors import StoreError
from pipeline.store import embedding_store
from pipeline.store.embedding_store import ViewRows, open_embeddings, write_embeddings
from pipeline.store.shard_reader import shard_reader

ROWS, WIDTH, SHARD, CHUNK = 301, 6, 128, 32


@pytest.fixture(params=["float16", "float32"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_store, "SHARD_ROWS", SHARD)
    monkeypatch.setattr(embedding_store, "CHUNK_ROWS", CHUNK)
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(request.param)
    shards = [x[i : i + SHARD] for i in range(0, ROWS, SHARD)]
    path = tmp_path / "a.zarr"
    write_embeddings(path, {"original": ViewRows(ROWS, WIDTH, request.param, {}, shards)}, {})
    return path


def metadata(store):
    return json.loads((store / "original" / "zarr.json").read_text())


@pytest.mark.parametrize(
    ("start", "stop"), [(0, ROWS), (0, 0), (5, 5), (0, 1), (300, 301), (31, 33), (32, 64), (100, 290), (127, 129)]
)
def test_rows_are_those_of_zarr(store, start, stop):
    reader = shard_reader(store / "original", metadata(store))
    general = np.asarray(zarr.open_array(store / "original", mode="r")[start:stop])
    direct = reader.read(start, stop)
    assert direct.dtype == general.dtype
    assert direct.shape == general.shape
    assert direct.tobytes() == general.tobytes()


def test_the_store_reads_any_range_without_zarr_python(store, monkeypatch):
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda *_: pytest.fail("read by zarr"))
    opened = open_embeddings(store)
    whole = opened.read("original")
    for start, stop in ((0, None), (-3, None), (290, 400), (50, 20), (400, 500)):
        assert np.array_equal(opened.read("original", start, stop), whole[start:stop])


@pytest.mark.parametrize(
    "change",
    [
        lambda layout: layout.update(zarr_format=2),
        lambda layout: layout.update(data_type="int16"),
        lambda layout: layout["codecs"][0].update(name="other"),
        lambda layout: layout["codecs"][0]["configuration"].update(index_location="start"),
        lambda layout: layout["codecs"][0]["configuration"]["codecs"].pop(),
        lambda layout: layout["chunk_key_encoding"].update(name="v2"),
        lambda layout: layout.pop("shape"),
        lambda layout: layout.update(codecs=[]),
    ],
)
def test_another_layout_is_refused(store, change):
    layout = metadata(store)
    shard_reader(store / "original", layout)
    change(layout)
    with pytest.raises(ValueError, match="another layout"):
        shard_reader(store / "original", layout)


def test_compressed_rows_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr.codecs, "Crc32cCodec", zarr.codecs.GzipCodec)
    x = np.ones((40, 3), np.float16)
    write_embeddings(tmp_path / "a.zarr", {"zeros": ViewRows(40, 3, "float16", {}, [x])}, {})
    with pytest.raises(StoreError, match=r"a.zarr/zeros: .*another layout"):
        open_embeddings(tmp_path / "a.zarr")
