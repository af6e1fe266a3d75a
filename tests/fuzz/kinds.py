"""For each kind of input file, define how a corrupted file is made and read."""

import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save

from faults import tiny_stores
from fuzz.harness import corrupt_bytes, corrupt_text, corrupt_tree, only_our_errors
from pipeline.array_files import read_paths
from pipeline.cli.use import use
from pipeline.config.params import load_params
from pipeline.datasets.checked_csv import digest_file, digest_line, sha256_of
from pipeline.datasets.manifest_files import IMAGES, LABELS, read_images, read_labels
from pipeline.datasets.sources.choose import find_in
from pipeline.datasets.sources.source import DomainSettings
from pipeline.datasets.task_files import CLASSES, TASKS, read_classes, read_tasks
from pipeline.encoders.checkpoints import load_state_dict
from pipeline.encoders.image_decoding import decode, image_facts
from pipeline.extraction.imported import import_rows
from pipeline.image_files.read import read_bytes
from pipeline.problem.method_options import method_options
from pipeline.store.array_store import content_crc, crc_text
from shards import write_parquet, write_tar
from small_project import ROOT, SUITE_SECTIONS, small_params

FRAGMENTS = (
    *("[", "{", "&a ", "*a", ": ", "\t", "- ", "%", "|\n", "0o9", "\ufeff", "2001-99-99", ",", '"'),
    *("!!python/object:os.system ", "../..", "/etc/passwd", "\x00", "nan", "1e400", "\r"),
)
VALUES = (
    *(None, True, 0, -1, 1, 2, 3, 10**6, 10**12, 2**63, 10**400, 1.5, float("nan"), float("inf")),
    *("", "..", "../../etc", "/etc/passwd", "{}", "1e-4", "original", "vit", "\x00", "float64"),
    *("object", "string", "variable_length_utf8", "int8", "complex128", [], [1], [10**12, 768]),
    *([10**9, 10**9, 10**9], [[1]], {}, {"": 1}, {"name": "gzip"}, {"name": "numcodecs.pickle"}),
    *(["../x"], ["original", "original"]),
)


def _parameter_attempt(folder, files, corrupt):
    """Return an attempt that writes one of the two files corrupted and the other unchanged."""

    def attempt(rng):
        damaged = rng.choice(list(files))
        for name, content in files.items():
            (folder / name).write_bytes(corrupt(content, rng) if name == damaged else content.encode())
        with only_our_errors(".yaml", multiline=True):
            method = load_params(folder).method
            method_options(method.variant, method.options)

    return attempt


def parameter_values(folder, _monkeypatch):
    """Well-formed params.yaml and suite.yaml with wrong values."""
    trees = {"params.yaml": {}, "suite.yaml": {}}
    for section, value in small_params().items():
        trees["suite.yaml" if section in SUITE_SECTIONS else "params.yaml"][section] = value
    files = {name: json.dumps(tree) for name, tree in trees.items()}

    def corrupt(text, rng):
        return json.dumps(corrupt_tree(json.loads(text), rng, VALUES)).encode()

    return _parameter_attempt(folder, files, corrupt)


def parameter_text(folder, _monkeypatch):
    """Malformed params.yaml and suite.yaml."""
    files = {name: (ROOT / name).read_text() for name in ("params.yaml", "suite.yaml")}
    return _parameter_attempt(folder, files, partial(corrupt_text, fragments=FRAGMENTS))


def suites(folder, _monkeypatch):
    """Files in suites/, which are refused or copied to a valid suite.yaml."""
    texts = [file.read_text() for file in sorted((ROOT / "suites").glob("*.yaml"))]
    (folder / "suites").mkdir()
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (folder / "suite.yaml").write_text((ROOT / "suite.yaml").read_text())

    def attempt(rng):
        content = corrupt_text(rng.choice(texts), rng, FRAGMENTS)
        (folder / "suites" / "mine.yaml").write_bytes(content)
        with only_our_errors("mine.yaml", multiline=True):
            use("mine", folder, force=True)
        load_params(folder)

    return attempt


def manifests(folder, _monkeypatch):
    """A manifest's CSV files, with correct digests."""
    digest = "0123456789abcdef" * 4
    images = f"path,sha256,width,height\nd/a/1.png,{digest},4,3\nd/b/2.png,{digest},4,3\n"
    tables = {
        IMAGES: (images, read_images),
        TASKS: ("row,task,seed_0,seed_7\n0,1,train,test\n1,2,test,train\n", read_tasks),
        LABELS: ("path,class\nd/a/1.png,a\nd/b/2.png,b\n", read_labels),
        CLASSES: ("label,class,task\n0,a,1\n1,b,2\n", read_classes),
    }

    def write(path, content):
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        digest_file(file).write_text(digest_line(file.name, sha256_of(file)))

    def attempt(rng):
        for path, (text, _) in tables.items():  # a reader may read other tables, too
            write(path, text.encode())
        path = rng.choice(list(tables))
        text, read = tables[path]
        write(path, corrupt_text(text, rng, FRAGMENTS))
        with only_our_errors(path.name):
            read(folder)

    return attempt


def image_lists(folder, _monkeypatch):
    """A list of images in DomainNet's format, whose paths may not leave its folder."""
    for path in ("a/1.png", "b/2 2.png"):
        (folder / path).parent.mkdir()
        (folder / path).touch()

    def attempt(rng):
        content = corrupt_text("a/1.png 0\nb/2 2.png 1\n", rng, FRAGMENTS)
        (folder / "list.txt").write_bytes(content)
        with only_our_errors("list.txt"):
            for image in find_in(folder / "list.txt").images:
                assert image.path.resolve().is_relative_to(folder.resolve())

    return attempt


def shards(folder, _monkeypatch):
    """Tar and Parquet files and tables; every image found in them can be read."""
    picture = io.BytesIO()
    Image.new("RGB", (3, 2)).save(picture, "png")
    members = {"a/1.png": picture.getvalue(), "2.png": b"x", "2.json": b'{"label": 1, "task": 1}'}
    (folder / "1.png").write_bytes(picture.getvalue())
    whole = {
        "x.tar": write_tar(folder / "x.tar", members).read_bytes(),
        "x.parquet": write_parquet(folder / "x.parquet", [b"x", b"y"], label=[0, 1]).read_bytes(),
        "x.csv": b"path,label,domain,task\n1.png,a,d,1\n1.png,0,d,1\n",
    }
    settings = DomainSettings(domain="d", class_names=("a", "b"))

    def attempt(rng):
        name = rng.choice(list(whole))
        (folder / name).write_bytes(corrupt_bytes(whole[name], rng))
        with only_our_errors(name):
            for image in find_in(folder / name, settings).images:
                assert image.class_name in settings.class_names
                read_bytes(image.path)

    return attempt


def _random_array(rng):
    shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
    types = ("f2", "f4", "f8", ">f4", "i4", "u1", "?", "c8", "U5", "S3", "M8[s]", "f4,i4")
    array = np.zeros(shape, dtype=rng.choice(types))
    if array.dtype.kind == "f" and array.size:
        with np.errstate(over="ignore"):
            bad = rng.choice([float("nan"), float("inf"), -float("inf"), 1e300, 0.0])
            array.reshape(-1)[rng.randrange(array.size)] = bad
    return array


def arrays(folder, _monkeypatch):
    """Imported features in .npy and .npz: wrong types and shapes, non-finite numbers, damaged archives."""
    words = ("left/ant/1.png", "../x", "ant", "bee", "/a/b/c", "a//b/c", "")

    def attempt(rng):
        file = io.BytesIO()
        if rng.random() < 0.5:
            name, array = "x.npy", None
            np.save(file, rng.choice([np.ones((3, 2), "f4"), _random_array(rng)]))
        else:
            name, array = "x.npz", "original"
            paths = np.array([rng.choice(words) for _ in range(rng.randint(0, 4))], dtype=str)
            np.savez(file, original=_random_array(rng), paths=paths, **{"../../x": paths})
        content = file.getvalue()
        path = folder / name
        path.write_bytes(corrupt_bytes(content, rng) if rng.random() < 0.5 else content)
        with only_our_errors(name):
            rows = import_rows(path, array, np.arange(3), file_rows=3, dtype="float16")
            assert rows.shape[0] == 3
        with only_our_errors(name):
            assert not any(".." in Path(found).parts for found in read_paths(path) or [])

    return attempt


def encoded_images():
    """Return a small valid image of every format and mode."""
    modes = {
        "PNG": ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"],
        "JPEG": ["RGB", "L", "CMYK"],
        "WEBP": ["RGB", "RGBA"],
        "BMP": ["RGB", "L", "P"],
        "GIF": ["P", "L"],
        "TIFF": ["RGB", "L", "F", "I;16", "CMYK", "RGBA"],
    }
    pixels = np.random.default_rng(0).integers(0, 256, (13, 17, 3), dtype=np.uint8)
    numbers = {"I;16": pixels[..., 0].astype(np.uint16) * 257, "F": pixels[..., 0] / np.float32(255)}
    contents = []
    for form, mode in ((form, mode) for form, names in modes.items() for mode in names):
        image = Image.fromarray(numbers[mode]) if mode in numbers else Image.fromarray(pixels).convert(mode)
        file = io.BytesIO()
        image.save(file, form)
        contents.append(file.getvalue())
    return contents


SUFFIXES = (".png", ".jpg", ".webp", ".bmp", ".gif", ".tif")


def images(folder, _monkeypatch):
    """Images that are truncated, spliced, with flipped bits, or with a wrong suffix."""
    valid = encoded_images()

    def attempt(rng):
        file = folder / f"x{rng.choice(SUFFIXES)}"
        file.write_bytes(corrupt_bytes(rng.choice(valid), rng, valid))
        with only_our_errors(file.name):
            facts = image_facts(file, max_pixels=10_000)
            image = decode(file, expected_sha256=facts.sha256)
            assert image.mode == "RGB"
            assert image.width * image.height <= 10_000

    return attempt


def checkpoints(folder, _monkeypatch):
    """Weights in all three formats, with any suffix."""
    state = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.float16)}
    valid = {".safetensors": save(state)}
    for suffix, zipped in ((".pth", True), (".bin", False)):
        torch.save(state, folder / "saved", _use_new_zipfile_serialization=zipped)
        valid[suffix] = (folder / "saved").read_bytes()

    def attempt(rng):
        suffix = rng.choice(list(valid))
        file_suffix = rng.choice([*valid, ".pt"]) if rng.random() < 0.1 else suffix
        file = folder / f"model{file_suffix}"
        file.write_bytes(corrupt_bytes(valid[suffix], rng))
        with only_our_errors(file.name):
            load_state_dict(file)

    return attempt


def reseal(path, name, tree):
    """Write the metadata of array ``name``, or of the root if it is "", and update all checksums."""
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


def store_metadata(folder, monkeypatch, *, kind):
    """Malicious Zarr metadata with correct checksums."""
    store = kind(folder, monkeypatch)
    whole = {file: file.read_bytes() for file in store.files() if file.name == "zarr.json"}

    def attempt(rng):
        file = rng.choice(list(whole))
        name = "" if file.parent == store.path else file.parent.name
        reseal(store.path, name, corrupt_tree(json.loads(whole[file]), rng, VALUES))
        with only_our_errors(store.path.name):
            store.read()
        for path, content in whole.items():
            path.write_bytes(content)

    return attempt


STORES = {
    f"store_{kind.__name__}": partial(store_metadata, kind=kind)
    for kind in tiny_stores.KINDS
    if kind.__name__ not in ("basis", "manifest", "progress_log")
}
# kind: (function that prepares an attempt, number of attempts in `make test`; `make test-long` has 20 times as many)
KINDS = {
    "parameter_values": (parameter_values, 250),
    "parameter_text": (parameter_text, 40),
    "suites": (suites, 40),
    "manifests": (manifests, 250),
    "image_lists": (image_lists, 100),
    "shards": (shards, 300),
    "arrays": (arrays, 240),
    "images": (images, 700),
    "checkpoints": (checkpoints, 300),
    **{name: (prepare, 150) for name, prepare in STORES.items()},
}
