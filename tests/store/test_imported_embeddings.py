"""Embeddings computed elsewhere: matched by path or order, and refused by name when they do not fit."""

import numpy as np
import pytest

from pipeline.array_files import read_paths
from pipeline.errors import InputError
from pipeline.store.imported_embeddings import import_rows, row_order

WANTED = ["data/a/cat/1.jpg", "data/a/cat/2.jpg", "data/a/dog/1.jpg"]
PATHS = ["b/cat/9.jpg", "a/dog/1.jpg", "a/cat/2.jpg", "a/cat/1.jpg"]
X = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, original=X, paths=np.array(PATHS), integers=X.astype(int), flat=X[0])
    return path


def test_rows_are_matched_by_class_and_file_within_the_domain(file):
    order = row_order(file, read_paths(file), WANTED, "a")
    assert import_rows(file, "original", order, file_rows=4, dtype="float16").tolist() == [
        [6, 7],
        [4, 5],
        [2, 3],
    ]


def test_images_in_subfolders_of_a_class_are_told_apart(file):
    wanted = ["data/a/cat/x/1.jpg", "data/a/dog/x/1.jpg", "data/a/dog/2.jpg"]
    paths = ["a/dog/2.jpg", "a/dog/x/1.jpg", "a/cat/x/1.jpg"]
    assert row_order(file, paths, wanted, "a").tolist() == [2, 1, 0]


def test_a_domain_with_a_space_is_the_domain_with_an_underscore(file):
    paths = ["Real World/cat/1.jpg", "Real World/cat/2.jpg", "Real World/dog/1.jpg"]
    assert row_order(file, paths, WANTED, "real_world").tolist() == [0, 1, 2]


def test_npy_is_in_manifest_order(tmp_path):
    np.save(tmp_path / "f.npy", X[:3])
    assert read_paths(tmp_path / "f.npy") is None
    rows = import_rows(tmp_path / "f.npy", None, np.arange(3), file_rows=3, dtype="float32")
    assert np.array_equal(rows, X[:3])


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (PATHS[:3], "no row for 1 of the 3 images of a: data/a/cat/1.jpg"),
        ([*PATHS, "a/dog/7.jpg"], "1 paths unknown to the manifest: a/dog/7.jpg"),
        ([*PATHS, "a/dog/1.jpg"], r"two rows for a/dog/1.jpg \(rows 1 and 4\)"),
    ],
)
def test_paths_that_do_not_fit(file, paths, message):
    with pytest.raises(InputError, match=message):
        row_order(file, paths, WANTED, "a")


@pytest.mark.parametrize(
    ("array", "rows", "message"),
    [
        ("original", 3, "array 'original' has 4 rows where 3 are wanted"),
        ("integers", 4, "holds int64, not floating-point"),
        ("flat", 4, r"has shape \(2,\)"),
        ("orginal", 4, "has no array 'orginal'; did you mean 'original'?"),
    ],
)
def test_arrays_that_do_not_fit(file, array, rows, message):
    with pytest.raises(InputError, match=message):
        import_rows(file, array, np.arange(3), file_rows=rows, dtype="float16")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(tmp_path, bad):
    x = X.copy()
    x[2, 1] = bad
    np.save(tmp_path / "f.npy", x)
    with pytest.raises(InputError, match="row 2 is not finite"):
        import_rows(tmp_path / "f.npy", None, np.arange(4), file_rows=4, dtype="float16")
