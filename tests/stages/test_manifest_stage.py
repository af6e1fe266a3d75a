"""Test which images `manifest` and `generate` refuse or leave out; their outputs are in test_golden_outputs.py."""

import json
from pathlib import Path

import pytest
from PIL import Image

from pipeline.stage import main
from shards import files_in

MANIFEST = Path("cache/manifests/photos")


def domain(images, dataset="mine"):
    return {"dataset": dataset, "images": images, "views": ["original"], "templates": ["a {}"]}


@pytest.fixture
def project(params_only):
    params = params_only.read_params() | {"sources": {}, "problems": {}, "swept": {}}
    params["datasets"] = {
        "mine": {"classes_per_task": 1, "class_names": {"a": "apple", "b": "ball"}},
        "found": {"classes_per_task": 1, "class_names": {}},
    }
    params["domains"] = {"photos": domain("data/photos"), "free": domain("data/free", "found")}
    params_only.write_params(params)
    for i, name in enumerate(["a/0.png", "a/1.jpg", "a/2.PNG", "a/3.png", "b/0.png", "b/1.png"]):
        write_image(Path("data/photos", name), colour=i)
    return params_only


def write_image(path, *, colour=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (5, 4), (40 * colour, 0, 0)).save(path)


def test_unreadable_files_are_all_named_and_the_former_manifest_stays(project, capsys):
    assert main(["manifest", "photos"]) == 0
    before = files_in(MANIFEST)
    Path("data/photos/a/bad.png").write_bytes(b"not an image")
    content = Path("data/photos/b/0.png").read_bytes()
    Path("data/photos/b/cut.png").write_bytes(content[: len(content) // 2])
    capsys.readouterr()
    assert main(["manifest", "photos"]) == 2
    first, *others = capsys.readouterr().err.splitlines()
    assert "data/photos: 2 files" in first
    assert "data.unreadable: skip" in first
    assert [line.split(": ")[0].strip() for line in others] == ["data/photos/a/bad.png", "data/photos/b/cut.png"]
    assert files_in(MANIFEST) == before
    project.change_params(data={"unreadable": "skip"})
    assert main(["manifest", "photos"]) == 0
    report = json.loads((MANIFEST / "report.json").read_text())
    assert list(report["unreadable"]) == ["data/photos/a/bad.png", "data/photos/b/cut.png"]
    assert report["images"] == 6
    project.change_params(data={"max_pixels": 19})  # now all images count as decompression bombs
    assert main(["manifest", "photos"]) == 2
    assert "no images in it" in capsys.readouterr().err


def test_an_empty_class_folder_counts_as_a_class_without_class_names(project, refused):
    write_image(Path("data/free/x/1.png"))
    Path("data/free/y").mkdir()
    assert "data/free: 1 class has no images: y" in refused(main, "manifest", "free")


@pytest.mark.parametrize(
    ("stage", "key", "words"),
    [
        ("manifest", "photo", "did you mean 'photos'?"),
        ("manifest", "free", "data/free"),
        ("generate", "photos", "generated: there is no 'photos'"),
    ],
)
def test_unknown_keys_and_missing_inputs_are_named(project, refused, stage, key, words):
    line = refused(main, stage, key)
    assert words in line
    assert not Path("cache").exists()
