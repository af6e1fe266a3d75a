"""Zarr metadata by somebody who means harm and computes checksums too: our line, or numbers; never a path outside,
never an allocation that the files do not bear out."""

import copy
import json
import random

import pytest

from faults.tiny_stores import KINDS as ALL
from fuzz.inputs import little_memory, only_our_errors
from pipeline.errors import StoreError
from pipeline.store.seal import content_crc, crc_text

KINDS = [kind for kind in ALL if kind.__name__ not in ("basis", "manifest", "progress_log")]
VALUES = [
    None, True, 0, -1, 1, 2, 3, 5, 10**6, 10**12, 2**63, 10**400, 1.5, float("nan"), float("inf"), "", "..",
    "../../etc", "/etc/passwd", "float64", "object", "string", "variable_length_utf8", "int8", "complex128",
    [], [1], [10**12, 768],
    [10**9, 10**9, 10**9], [[1]], {}, {"name": "gzip"}, {"name": "numcodecs.pickle"}, ["../x"],
    ["original", "original"],
]  # fmt: skip


def places(tree, path=()):
    found = []
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def changed(tree, chosen):
    """Replace, remove or add one value somewhere."""
    tree = copy.deepcopy(tree)
    *way, last = chosen.choice(places(tree))
    holder = tree
    for key in way:
        holder = holder[key]
    action = chosen.randrange(4)
    if action == 0:
        del holder[last]
    elif action == 1 and isinstance(holder, dict):
        holder[str(chosen.choice(VALUES))[:20]] = chosen.choice(VALUES)
    else:
        holder[last] = chosen.choice(VALUES)
    return tree


def resealed(path, name, tree):
    """Write metadata with all checksums right; ``name``: of an array, or "" for the root."""
    root_file = path / "zarr.json"
    root = json.loads(root_file.read_text())
    if name:
        text = json.dumps(tree)
        (path / name / "zarr.json").write_text(text)
        root["attributes"]["checksums"][name] = crc_text(text.encode())
    else:
        root = tree
    if isinstance(root.get("attributes"), dict):
        root["attributes"].pop("checksum", None)
        root["attributes"]["checksum"] = content_crc(root)
    root_file.write_text(json.dumps(root))


def try_metadata(kind, folder, monkeypatch, count, seed):
    store = kind(folder, monkeypatch)
    chosen = random.Random(f"{kind.__name__}{seed}")
    files = [file for file in store.files() if file.name == "zarr.json"]
    whole = {file: file.read_bytes() for file in files}
    for _ in range(count):
        file = chosen.choice(files)
        name = "" if file.parent == store.path else file.parent.name
        tree = json.loads(whole[file])
        for _ in range(chosen.randint(1, 2)):
            tree = changed(tree, chosen) if tree else tree
        resealed(store.path, name, tree)
        with only_our_errors("store metadata"):
            store.read()
        for each, content in whole.items():
            each.write_bytes(content)
    store.read()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hundreds(kind, tmp_path, monkeypatch):
    with little_memory():
        try_metadata(kind, tmp_path, monkeypatch, 150, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_thousands(kind, tmp_path, monkeypatch):
    with little_memory():
        try_metadata(kind, tmp_path, monkeypatch, 3000, seed=1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["../outside", "/absolute", "a/b", "..", ".", "", "a\n"])
def test_an_array_outside_the_store_is_not_read(kind, name, tmp_path, monkeypatch):
    store = kind(tmp_path, monkeypatch)
    root = json.loads((store.path / "zarr.json").read_text())
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "zarr.json").write_text("{}")
    root["attributes"]["checksums"][name] = crc_text(b"{}")
    resealed(store.path, "", root)
    with pytest.raises(StoreError, match="is not the name of an array"):
        store.read()


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"attributes":' * 50_000, "1" * 5000, "[]", '"x"', "\x00"]
)
def test_metadata_that_would_recurse(text, tmp_path, monkeypatch):
    store = KINDS[0](tmp_path, monkeypatch)
    (store.path / "zarr.json").write_text(text)
    with pytest.raises(StoreError, match="not a readable Zarr store"):
        store.read()


def test_terabytes_are_not_allocated(tmp_path, monkeypatch):
    store = KINDS[0](tmp_path, monkeypatch)
    metadata = json.loads((store.path / "original" / "zarr.json").read_text())
    for shape in ([10**12, 3], [11, 10**12], [2**62, 2**62]):
        metadata["shape"] = shape
        resealed(store.path, "original", metadata)
        with little_memory(), pytest.raises(StoreError):
            store.read()


def test_terabytes_of_an_array_store_are_not_allocated(tmp_path, monkeypatch):
    store = KINDS[1](tmp_path, monkeypatch)
    metadata = json.loads((store.path / "text" / "zarr.json").read_text())
    for shape in ([1, 4, 10**12], [10**12, 4, 3], [1, 2**62, 2**62]):
        metadata["shape"] = shape
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = [1, *shape[1:]]
        resealed(store.path, "text", metadata)
        with little_memory(), pytest.raises(StoreError, match="damaged"):
            store.read()
