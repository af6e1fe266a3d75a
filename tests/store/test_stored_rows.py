import numpy as np
import pytest

from pipeline.store import stored_rows
from pipeline.store.embedding_store import ViewRows, open_embeddings, write_embeddings
from pipeline.store.stored_rows import StoredRows, rows_of


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "x.zarr"
    x = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float16)
    write_embeddings(path, {"original": ViewRows(5000, 3, "float16", {}, [x])}, {})
    return open_embeddings(path), x


@pytest.mark.parametrize("index", [[], [0], [4999], [0, 1, 2], [1023, 1024], [5, 3000, 4999], list(range(0, 5000, 7))])
def test_rows_are_those_of_the_array(stored, index):
    store, x = stored
    rows = StoredRows(store, "original", np.arange(5000))
    index = np.array(index, dtype=np.intp)
    np.testing.assert_array_equal(rows[index], x[index])
    assert rows.shape == x.shape


def test_rows_are_taken_of_rows_taken(stored):
    store, x = stored
    odd = StoredRows(store, "original", np.arange(5000)).take(np.arange(1, 5000, 2))
    some = odd.take(np.array([10, 2000]))
    np.testing.assert_array_equal(some[np.arange(2)], x[[21, 4001]])
    assert len(some) == 2


def test_only_the_chunks_that_are_needed_are_read(stored, monkeypatch):
    store, _ = stored
    spans = []
    read = type(store).read
    monkeypatch.setattr(type(store), "read", lambda self, v, a=0, b=None: spans.append((a, b)) or read(self, v, a, b))
    StoredRows(store, "original", np.arange(5000))[np.array([3, 9, 4500])]
    assert spans == [(3, 10), (4500, 4501)]


def test_small_views_are_arrays_and_large_ones_are_not(stored, monkeypatch):
    store, x = stored
    np.testing.assert_array_equal(rows_of(store, "original"), x)
    assert isinstance(rows_of(store, "original", lazy=True), StoredRows)
    monkeypatch.setattr(stored_rows, "WHOLE_BYTES", 29_999)  # the view has 30,000
    assert isinstance(rows_of(store, "original"), StoredRows)
