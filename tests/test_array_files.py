"""Array files from outside: read without unpickling, refused in one line that names the file."""

import numpy as np
import pytest

from pipeline.array_files import is_domain, read_array, read_paths
from pipeline.errors import InputError

X = np.zeros((2, 2), dtype=np.float32)


def test_object_arrays_are_never_unpickled(tmp_path):
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "f.npz", original=objects, paths=objects)
    with pytest.raises(InputError, match="original holds Python objects, which could run code"):
        read_array(tmp_path / "f.npz", "original")
    with pytest.raises(InputError, match="paths holds Python objects"):
        read_paths(tmp_path / "f.npz")
    np.save(tmp_path / "f.npy", objects)
    with pytest.raises(InputError, match="its array holds Python objects"):
        read_array(tmp_path / "f.npy", None)


def test_files_that_are_not_arrays(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_array(tmp_path / "none.npy", None)
    for name in ("f.npy", "f.npz"):
        (tmp_path / name).write_bytes(b"hello")
        with pytest.raises(InputError, match=r"f\.np[yz]: not a \.npy or \.npz file"):
            read_array(tmp_path / name, "original")
    np.savez(tmp_path / "g.npz", original=X)
    (tmp_path / "g.npz").write_bytes((tmp_path / "g.npz").read_bytes()[:-40])
    with pytest.raises(InputError, match="not a readable"):
        read_array(tmp_path / "g.npz", "original")


def test_paths(tmp_path):
    np.savez(
        tmp_path / "f.npz", paths=np.array(["a/b/c.jpg"]), x=X, one=np.array(["a/b/c.jpg", "1.jpg"])
    )
    assert read_paths(tmp_path / "f.npz") == ["a/b/c.jpg"]
    assert read_paths(tmp_path / "f.npz", "absent") is None
    with pytest.raises(InputError, match=r"one\[1\] = '1.jpg' is not DOMAIN/CLASS/FILE"):
        read_paths(tmp_path / "f.npz", "one")
    with pytest.raises(InputError, match="must be a list of strings, not float32"):
        read_paths(tmp_path / "f.npz", "x")


def test_domains_are_compared_as_keys():
    assert is_domain("Real World", "real_world")
    assert is_domain("amazon", "amazon")
    assert not is_domain("amazon2", "amazon")
