"""Corrupted inputs of every kind are read or refused in one line; malicious inputs are refused.

`make test` tries hundreds of corrupted inputs, `make test-long` thousands. The malicious ones would run code, exhaust
memory, recurse or lead outside their folder.
"""

import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from faults import tiny_stores
from fuzz.harness import limited_memory, try_inputs
from fuzz.kinds import KINDS, STORES, SUFFIXES, encoded_images, reseal
from pipeline.array_files import read_array
from pipeline.config.params import load_params
from pipeline.encoders.checkpoints import load_state_dict
from pipeline.encoders.image_decoding import decode, image_facts
from pipeline.errors import InputError, ModelError, ParamsError, StoreError
from pipeline.store.array_store import crc_text
from small_project import ROOT

STORE_KINDS = [prepare.keywords["kind"] for prepare in STORES.values()]


class Runs:
    """Create a file called marker when unpickled."""

    def __reduce__(self):
        return os.system, ("touch marker",)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run each test in a temporary folder, and check that no input has executed code there."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not Path("marker").exists()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(("times", "seed"), [(1, 0), pytest.param(20, 1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
def test_corrupted_inputs_are_read_or_refused(name, times, seed, folder, monkeypatch):
    prepare, count = KINDS[name]
    try_inputs(name, prepare(folder, monkeypatch), times * count, seed)


def test_every_valid_image_is_decoded_under_every_suffix(folder):
    for content in encoded_images():
        for suffix in SUFFIXES:
            (folder / f"x{suffix}").write_bytes(content)
            assert decode(folder / f"x{suffix}").size == (17, 13)


@pytest.mark.parametrize("file", ["params.yaml", "suite.yaml"])
@pytest.mark.parametrize(
    "text",
    [
        *("[" * 5_000, "a: " * 5000, "a: &a [*a]", "a: &a {b: *a}", "? [a, b]\n: c", "\x00", ""),
        "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}' if i else 'x'] * 10)}]\n" for i in range(12)),
        "!!python/object/apply:os.system ['touch marker']",
        *("suite: 2001-99-99", "suite: !!timestamp nonsense", "suite: !!int x"),
    ],
)  # fmt: skip
def test_yaml_that_would_recurse_explode_or_run_code_is_refused(file, text):
    for name in ("params.yaml", "suite.yaml"):
        Path(name).write_text(text if name == file else (ROOT / name).read_text())
    with limited_memory(), pytest.raises(ParamsError, match=file):
        load_params()


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_no_array_is_unpickled(name):
    objects = np.array([Runs()], dtype=object)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, objects, allow_pickle=True)
    np.savez(npz, original=objects)
    pickles = [pickle.dumps(Runs()), pickle.dumps(Runs(), 0)]
    for content in (npy.getvalue(), npz.getvalue(), *pickles):
        Path(name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            read_array(Path(name), None if name == "x.npy" else "original")


@pytest.mark.parametrize(
    "shape", ["(1000000000000, 768)", "(99999999999999999999, 1)", "(-1, 3)", "(3,)*9", "(True, 3)"]
)
def test_a_false_array_header_allocates_no_memory(shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(12)
    Path("x.npy").write_bytes(content)
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("original.npy", content)
    for file, name in ((Path("x.npy"), None), (Path("x.npz"), "original")):
        with limited_memory(), pytest.raises(InputError, match=file.name):
            read_array(file, name)


def test_a_decompression_bomb_is_refused():
    with (
        zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("original.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(5):
            file.write(bytes(2**26))
    with pytest.raises(InputError, match=r"x\.npz.*335,544,320 bytes"):
        read_array(Path("x.npz"), "original")


@pytest.mark.parametrize("form", ["zip", "legacy", "bare", "protocol 0", "wrapped"])
def test_a_checkpoint_that_would_run_code_is_refused(form):
    if form == "bare":
        content = pickle.dumps(Runs())
    elif form == "protocol 0":
        content = pickle.dumps({"state_dict": Runs()}, 0)
    else:
        state = {"a": torch.ones(2), "x": Runs()} if form != "wrapped" else {"hook": [Runs()]}
        torch.save(state, "saved", _use_new_zipfile_serialization=form != "legacy")
        content = Path("saved").read_bytes()
    for suffix in (".safetensors", ".pth", ".pt", ".bin"):
        Path(f"model{suffix}").write_bytes(content)
        with pytest.raises(ModelError, match=f"model{suffix}") as raised:
            load_state_dict(Path(f"model{suffix}"))
        assert "\n" not in str(raised.value)
    if form in ("zip", "legacy", "wrapped"):
        assert "system" in str(raised.value)
        assert "safetensors" in str(raised.value)


def test_a_torchscript_archive_is_refused():
    with zipfile.ZipFile("model.pt", "w") as archive:
        archive.writestr("m/code/__torch__.py", "import os\nos.system('touch marker')\n")
        archive.writestr("m/constants.pkl", pickle.dumps(()))
        archive.writestr("m/data.pkl", pickle.dumps(Runs()))
        archive.writestr("m/version", "3\n")
    with pytest.raises(ModelError, match=r"model\.pt.*safetensors"):
        load_state_dict(Path("model.pt"))


@pytest.mark.parametrize(("width", "height"), [(100_000, 100_000), (2**31 - 1, 2**31 - 1), (10_001, 10_000)])
def test_a_huge_image_is_refused_by_its_header(width, height):
    def chunk(kind, data):
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    Path("x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + pixels)
    with limited_memory(2**28), pytest.raises(InputError, match=r"x\.png: .*limit of 100,000,000.*data\.max_pixels"):
        image_facts(Path("x.png"))


@pytest.mark.parametrize("kind", STORE_KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["../outside", "/absolute", "a/b", "..", ".", "", "a\n"])
def test_an_array_outside_the_store_is_not_read(kind, name, folder, monkeypatch):
    store = kind(folder, monkeypatch)
    root = json.loads((store.path / "zarr.json").read_text())
    Path("outside").mkdir()
    Path("outside/zarr.json").write_text("{}")
    root["attributes"]["checksums"][name] = crc_text(b"{}")
    reseal(store.path, "", root)
    with pytest.raises(StoreError, match="is not the name of an array"):
        store.read()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"attributes":' * 50_000, "1" * 5000, "[]", '"x"', "\x00"])
def test_store_metadata_that_would_recurse_is_refused(text, folder, monkeypatch):
    store = tiny_stores.embeddings(folder, monkeypatch)
    (store.path / "zarr.json").write_text(text)
    with pytest.raises(StoreError, match=store.path.name):
        store.read()


@pytest.mark.parametrize(
    ("kind", "array", "shapes"),
    [
        (tiny_stores.embeddings, "original", ([10**12, 3], [11, 10**12], [2**62, 2**62])),
        (tiny_stores.prompts, "text", ([1, 4, 10**12], [10**12, 4, 3], [1, 2**62, 2**62])),
    ],
)
def test_false_store_metadata_allocates_no_memory(kind, array, shapes, folder, monkeypatch):
    store = kind(folder, monkeypatch)
    metadata = json.loads((store.path / array / "zarr.json").read_text())
    for shape in shapes:
        metadata["shape"] = shape
        if array == "text":
            metadata["chunk_grid"]["configuration"]["chunk_shape"] = [1, *shape[1:]]
        reseal(store.path, array, metadata)
        with limited_memory(), pytest.raises(StoreError, match=store.path.name):
            store.read()
