"""Imported .npy and .npz: object arrays, pickles, wrong shapes, NaN, lying headers, damaged archives."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import examples, little_memory, only_our_errors
from pipeline.array_files import read_array, read_paths
from pipeline.errors import InputError
from pipeline.params import Model
from pipeline.stages.prompts import import_prompts
from pipeline.store.imported_embeddings import import_rows

DTYPES = ["f2", "f4", "f8", ">f4", "i4", "u1", "?", "c8", "U5", "S3", "M8[s]", "f4,i4"]
BAD = [float("nan"), float("inf"), -float("inf"), 1e300, 0.0]


class Runs:
    """Would make a file called marker when unpickled."""

    def __reduce__(self):
        return os.system, ("touch marker",)


def saved(array, **how):
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


@st.composite
def arrays(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    array = np.zeros(shape, dtype=draw(st.sampled_from(DTYPES)))
    if array.dtype.kind == "f" and array.size:
        with np.errstate(over="ignore"):
            array.reshape(-1)[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(BAD))
    return array


@st.composite
def damaged(draw, content):
    """Bytes cut short, with some of them replaced."""
    content = bytearray(content[: draw(st.integers(0, len(content)))])
    for _ in range(draw(st.integers(0, 4))):
        if content:
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


def read_all(file):
    with only_our_errors("arrays"):
        name = None if file.suffix == ".npy" else "original"
        rows = import_rows(file, name, np.arange(3), file_rows=3, dtype="float16")
        assert rows.shape[0] == 3
        assert np.isfinite(rows.astype(np.float64)).all() or rows.dtype == np.float16
    with only_our_errors("arrays", again=True):
        for path in read_paths(file) or []:
            assert ".." not in Path(path).parts
    with only_our_errors("arrays", again=True):
        spec = Model(library="imported", name="x", origin=str(file))
        prompts = import_prompts(spec, ["ant", "bee"])
        assert np.isfinite(prompts.text).all()


def npy(folder, count):
    valid = saved(np.ones((3, 2), np.float32))

    @examples(count)
    @given(
        arrays().map(saved)
        | damaged(valid)
        | st.binary(max_size=80).map(lambda b: b"\x93NUMPY" + b)
    )
    def run(content):
        (folder / "x.npy").write_bytes(content)
        read_all(folder / "x.npy")

    run()


def npz(folder, count):
    names = st.sampled_from(["original", "paths", "text", "class_names", "logit_scale", "../../x"])
    words = st.lists(
        st.sampled_from(["left/ant/1.png", "../x", "ant", "bee", "/a/b/c", "a//b/c", ""]),
        max_size=4,
    )

    @examples(count)
    @given(
        st.dictionaries(names, arrays() | words.map(lambda w: np.array(w, dtype=str)), max_size=5),
        st.data(),
    )
    def run(content, data):
        file = io.BytesIO()
        np.savez(file, **content)
        (folder / "x.npz").write_bytes(
            data.draw(damaged(file.getvalue()) | st.just(file.getvalue()))
        )
        read_all(folder / "x.npz")

    run()


KINDS = [(npy, 120), (npz, 120)]


@pytest.mark.parametrize(("kind", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_hundreds(kind, count, tmp_path):
    with little_memory():
        kind(tmp_path, count)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_thousands(kind, count, tmp_path):
    with little_memory():
        kind(tmp_path, 10 * count)


def lying_header(shape):
    """Return a .npy of 12 bytes of numbers whose header says ``shape``."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(12)


@pytest.mark.parametrize(
    "shape", ["(1000000000000, 768)", "(99999999999999999999, 1)", "(-1, 3)", "(3,)*9", "(True, 3)"]
)
def test_a_header_that_lies_asks_for_no_memory(shape, tmp_path):
    with little_memory():
        (tmp_path / "x.npy").write_bytes(lying_header(shape))
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("original.npy", lying_header(shape))
        for file, name in ((tmp_path / "x.npy", None), (tmp_path / "x.npz", "original")):
            with pytest.raises(InputError, match="not a readable"):
                read_array(file, name)


def test_an_archive_that_would_unpack_to_gigabytes_is_refused(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("original.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(5):
            file.write(bytes(2**26))
    with pytest.raises(InputError, match="would unpack to 335,544,320 bytes"):
        read_array(tmp_path / "x.npz", "original")


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_nothing_is_unpickled(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = np.array([Runs()], dtype=object)
    contents = [saved(objects, allow_pickle=True), pickle.dumps(Runs()), pickle.dumps(Runs(), 0)]
    file = io.BytesIO()
    np.savez(file, original=objects)
    for content in (*contents, file.getvalue()):
        Path(name).write_bytes(content)
        with pytest.raises(InputError):
            read_array(Path(name), None if name == "x.npy" else "original")
        assert not Path("marker").exists()
    np.load(io.BytesIO(contents[0]), allow_pickle=True)  # it would have
    assert Path("marker").exists()
