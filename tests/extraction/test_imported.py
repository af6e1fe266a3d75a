"""Imported embeddings: matching rows by path or order, and error messages for files that do not fit."""

import numpy as np
import pytest

from pipeline.array_files import is_domain, read_array, read_paths
from pipeline.errors import InputError
from pipeline.extraction.imported import embeddings_file, import_rows, import_views, row_order

IMAGES = ["data/a/cat/1.jpg", "data/a/cat/2.jpg", "data/a/dog/1.jpg"]
PATHS = ["b/cat/9.jpg", "a/dog/1.jpg", "a/cat/2.jpg", "a/cat/1.jpg"]
X = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(
        path, original=X, paths=np.array(PATHS), integers=X.astype(int), flat=X[0], nan=np.where(X == 5, np.nan, X)
    )
    return path


def test_rows_are_matched_by_class_and_file_within_the_domain(file):
    names = {"zeros": "original"}
    views = import_views(file, "a", IMAGES, ["original", "zeros"], arrays=names, dtype="float16")
    for rows in views.values():
        assert (rows.rows, rows.width, rows.settings) == (3, 2, {"imported_as": "original"})
        assert rows.shards[0].tolist() == [[6, 7], [4, 5], [2, 3]]


def test_images_in_subfolders_of_a_class_are_distinguished(file):
    images = ["data/a/cat/x/1.jpg", "data/a/dog/x/1.jpg", "data/a/dog/2.jpg"]
    paths = ["a/dog/2.jpg", "a/dog/x/1.jpg", "a/cat/x/1.jpg"]
    assert row_order(file, paths, images, "a").tolist() == [2, 1, 0]


def test_an_npy_is_read_in_manifest_order(tmp_path):
    np.save(tmp_path / "a.npy", X[:3])
    file = embeddings_file(tmp_path, "a")
    views = import_views(file, "a", IMAGES, ["original"], arrays={}, dtype="float32")
    np.testing.assert_array_equal(views["original"].shards[0], X[:3])
    with pytest.raises(InputError, match=r"none\.npy: no such file"):
        read_array(tmp_path / "none.npy", None)
    with pytest.raises(InputError, match=r"holds none of b\.zarr, b\.npz and b\.npy"):
        embeddings_file(tmp_path, "b")


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (PATHS[:3], "no row for 1 of the 3 images of a: data/a/cat/1.jpg"),
        ([*PATHS, "a/dog/7.jpg"], "1 path unknown to the manifest: a/dog/7.jpg"),
        ([*PATHS, "a/dog/1.jpg"], r"two rows for a/dog/1.jpg \(rows 1 and 4\)"),
    ],
)
def test_paths_that_do_not_match_the_manifest_are_an_error(file, paths, message):
    with pytest.raises(InputError, match=message):
        row_order(file, paths, IMAGES, "a")


@pytest.mark.parametrize(
    ("array", "rows", "message"),
    [
        ("original", 3, "array 'original' has 4 rows where 3"),
        ("integers", 4, "holds int64, not floating-point"),
        ("flat", 4, r"has shape \(2,\)"),
        ("nan", 4, "array 'nan': row 2 is not finite"),
        ("orginal", 4, "has no array 'orginal'; did you mean 'original'?"),
    ],
)
def test_an_unsuitable_array_is_an_error(file, array, rows, message):
    with pytest.raises(InputError, match=message):
        import_rows(file, array, np.arange(3), file_rows=rows, dtype="float16")


def test_paths_are_read_if_present_and_valid(tmp_path):
    np.savez(tmp_path / "f.npz", paths=["a/b/c.jpg"], x=X[:2], bad=["a/b/c.jpg", "1.jpg"])
    assert read_paths(tmp_path / "f.npz") == ["a/b/c.jpg"]
    assert read_paths(tmp_path / "f.npz", "absent") is None
    with pytest.raises(InputError, match=r"f\.npz: bad\[1\].*DOMAIN/CLASS/FILE"):
        read_paths(tmp_path / "f.npz", "bad")
    with pytest.raises(InputError, match=r"f\.npz: 'x'.*list of strings"):
        read_paths(tmp_path / "f.npz", "x")


def test_domains_are_compared_by_their_keys():
    assert is_domain("Real World", "real_world")
    assert not is_domain("amazon2", "amazon")
