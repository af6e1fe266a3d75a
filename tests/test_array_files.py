"""Array files from outside: read without unpickling, refused in one line that names the file."""

import numpy as np
import pytest

from pipeline.array_files import is_domain, read_array, read_paths
from pipeline.errors import InputError

X = np.zeros((2, 2), dtype=np.float32)


def test_files_that_are_not_arrays(tmp_path):
    with pytest.raises(InputError, match=r"none\.npy: "):
        read_array(tmp_path / "none.npy", None)
    np.savez(tmp_path / "g.npz", original=X)
    whole = (tmp_path / "g.npz").read_bytes()
    for content in (b"hello", b"PK\x03\x04 not really", whole[:-40], b"x" * 40 + whole[40:]):
        (tmp_path / "f.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"f\.npz: "):
            read_array(tmp_path / "f.npz", "original")


def test_paths(tmp_path):
    np.savez(tmp_path / "f.npz", paths=["a/b/c.jpg"], x=X, one=["a/b/c.jpg", "1.jpg"])
    assert read_paths(tmp_path / "f.npz") == ["a/b/c.jpg"]
    assert read_paths(tmp_path / "f.npz", "absent") is None
    with pytest.raises(InputError, match=r"f\.npz: one\[1\].*DOMAIN/CLASS/FILE"):
        read_paths(tmp_path / "f.npz", "one")
    with pytest.raises(InputError, match=r"f\.npz: 'x'.*list of strings"):
        read_paths(tmp_path / "f.npz", "x")


def test_domains_are_compared_as_keys():
    assert is_domain("Real World", "real_world")
    assert is_domain("amazon", "amazon")
    assert not is_domain("amazon2", "amazon")
