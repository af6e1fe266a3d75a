"""Embedding stores: what is written is read, bytes repeat, and damage is an error, never a number."""

import errno
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.store import embedding_store
from pipeline.store.embedding_store import ViewRows, open_embeddings, write_embeddings
from small_project import tree_digest


def values(n: int = 300, d: int = 6) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d)).astype(np.float16)


def write(path: Path, x: np.ndarray, *, shard: int = 128, views: tuple[str, ...] = ("original", "zeros")) -> None:
    shards = [x[i : i + shard] for i in range(0, len(x), shard)]
    rows = ViewRows(*x.shape, "float16", {"wavelet": "haar"}, shards)
    write_embeddings(path, dict.fromkeys(views, rows), {"domain": "a", "weights": "w1"})


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(embedding_store, "SHARD_ROWS", 128)
    monkeypatch.setattr(embedding_store, "CHUNK_ROWS", 32)


def test_what_is_written_is_read(tmp_path):
    x = values()
    write(tmp_path / "a.zarr", x)
    store = open_embeddings(tmp_path / "a.zarr")
    assert (store.rows, store.width, store.views) == (300, 6, ("original", "zeros"))
    assert np.array_equal(store.read("original"), x)
    assert np.array_equal(store.read("zeros", 100, 140), x[100:140])
    assert np.array_equal(np.concatenate(list(store.blocks("original", 77))), x)
    assert store.settings("zeros") == {"wavelet": "haar"}
    assert store.provenance["weights"] == "w1"


def test_the_same_rows_give_the_same_bytes_in_another_folder(tmp_path):
    write(tmp_path / "a.zarr", values())
    write(tmp_path / "other" / "b.zarr", values())
    assert tree_digest(tmp_path / "a.zarr") == tree_digest(tmp_path / "other" / "b.zarr")
    text = "".join(p.read_text() for p in (tmp_path / "a.zarr").rglob("zarr.json"))
    assert str(tmp_path) not in text
    files = [path for path in (tmp_path / "a.zarr").rglob("*") if path.is_file()]
    assert len(files) == 1 + 2 * (1 + 3), "few files: metadata, and three shards of each view"


def test_a_missing_shard_or_view_or_store_is_an_error(tmp_path):
    write(tmp_path / "a.zarr", values())
    (tmp_path / "a.zarr" / "zeros" / "c" / "2" / "0").unlink()
    with pytest.raises(StoreError, match="a shard is missing"):
        open_embeddings(tmp_path / "a.zarr")
    write(tmp_path / "a.zarr", values(), views=("original",))
    with pytest.raises(StoreError, match="has no view 'rand'"):
        open_embeddings(tmp_path / "a.zarr").read("rand")
    with pytest.raises(StoreError, match=r"no such store; run dvc repro or dvc pull"):
        open_embeddings(tmp_path / "b.zarr")


def test_a_mismatch_names_both_sides(tmp_path):
    write(tmp_path / "a.zarr", values())
    store = open_embeddings(tmp_path / "a.zarr")
    store.require({"weights": "w1"})
    with pytest.raises(StoreError, match=r"a\.zarr: .*'w1'.*'w2'.*dvc"):
        store.require({"weights": "w2"})
    store.require_backbone({"weights": "w1"}, tmp_path / "b.zarr")
    with pytest.raises(StoreError, match=r"a\.zarr: .*'w1'.*b\.zarr.*'w2'.*dvc repro"):
        store.require_backbone({"weights": "w2"}, tmp_path / "b.zarr")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_and_nothing_is_left(tmp_path, bad):
    x = values()
    write(tmp_path / "a.zarr", x)
    before = tree_digest(tmp_path / "a.zarr")
    x[200, 3] = bad
    with pytest.raises(StoreError, match=r"row 200: the embedding is not finite .*stored_as: float32"):
        write(tmp_path / "a.zarr", x)
    assert tree_digest(tmp_path / "a.zarr") == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES])
def test_what_the_machine_lacks_is_no_damage(tmp_path, monkeypatch, code):
    """An error that calls a store damaged makes people remove it."""
    view = ViewRows(3, 2, "float32", {}, [np.ones((3, 2), np.float32)])
    write_embeddings(tmp_path / "s.zarr", {"original": view}, {})
    opened = open_embeddings(tmp_path / "s.zarr")

    def refuse(*_args, **_more):
        raise OSError(code, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match="no") as error:
        opened.read("original")
    assert error.value.errno == code
