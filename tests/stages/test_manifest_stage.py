"""The stages from images to manifests, run as DVC runs them: in a folder with params.yaml."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets.manifest_files import read_classes, read_images, read_labels
from pipeline.stages import generate, image_list, manifest

ROOT = Path(__file__).parents[2]
PARAMS = """\
suite: mine
datasets:
  mine: {classes_per_task: 1, class_names: {a: apple, b: ball}}
  found: {classes_per_task: 1, class_names: {}}
generated:
  uci: {folder: data/uci, per_class: 2}
lists:
  l: {file: data/photos/list.txt, domain: listed, root: data/photos}
domains:
  photos: {dataset: mine, images: data/photos, views: [original], templates: ["a {}"]}
  listed: {dataset: mine, images: data/photos, views: [original], templates: ["a {}"]}
  absent: {dataset: found, images: data/x.npz, views: [original], templates: ["a {}"]}
  free: {dataset: found, images: data/free, views: [original], templates: ["a {}"]}
  uci: {dataset: found, images: data/uci, views: [original], templates: ["a {}"]}
models:
  clip: {library: open_clip, name: ViT-B-32, origin: weights}
vision: clip
language: clip
data: {seeds: [0, 3], test_fraction: 0.25}
sources: {}
problems: {}
views: {}
rff: {}
method: {}
refinement: {}
swept: {}
compare: {methods: [calibrated]}
sensitivity: {D: [10], sigma: [1e-4]}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS)
    for i, name in enumerate(["a/0.png", "a/1.jpg", "a/2.PNG", "a/3.png", "b/0.png", "b/1.png"]):
        put(tmp_path / "data/photos" / name, colour=i)
    return tmp_path


def put(path, *, colour=0, size=(5, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (40 * colour, 0, 0)).save(path)


def change(project, old, new):
    text = (project / "params.yaml").read_text()
    assert old in text
    (project / "params.yaml").write_text(text.replace(old, new))


def test_a_folder_of_images(project):
    assert manifest.main(["photos"]) == 0
    folder = project / "cache/manifests/photos"
    assert sorted(file.name for file in folder.iterdir()) == [
        "classes.csv",
        "images.csv",
        "labels.csv",
        "report.json",
        "tasks.csv",
    ]
    lines = (folder / "images.csv").read_text().splitlines()
    assert lines[0] == "path,sha256,width,height,crc32c"
    assert lines[1].startswith("data/photos/a/0.png,")
    assert lines[1].rpartition(",")[0].endswith(",5,4")
    assert (folder / "tasks.csv").read_text().startswith("row,task,seed_0,seed_3,crc32c\n0,0,t")
    assert str(project) not in "".join(file.read_text() for file in folder.iterdir())


def test_again_gives_the_same_bytes(project):
    def made():
        assert manifest.main(["photos"]) == 0
        return {f.name: f.read_bytes() for f in (project / "cache/manifests/photos").iterdir()}

    assert made() == made()


def test_an_image_list(project):
    (project / "data/photos/list.txt").write_bytes(b"a/1.jpg 0\r\nb/0.png 1\r\n")
    assert image_list.main(["l"]) == 0
    assert (project / "cache/lists/l.txt").read_bytes() == b"a/1.jpg 0\r\nb/0.png 1\r\n"
    assert manifest.main(["listed"]) == 0
    labels = read_labels(project / "cache/manifests/listed/labels.csv")
    assert labels == [("data/photos/a/1.jpg", "a", 0), ("data/photos/b/0.png", "b", 1)]


def test_a_list_without_class_names_has_the_classes_it_lists(project):
    change(project, "listed: {dataset: mine", "listed: {dataset: found")
    (project / "data/photos/list.txt").write_text("b/0.png 1\n")
    assert image_list.main(["l"]) == 0
    assert manifest.main(["listed"]) == 0
    assert read_classes(project / "cache/manifests/listed/classes.csv") == [(0, "b", 0)]


def test_paths_of_an_npz_where_the_images_are_absent(project):
    paths = np.array(["absent/y/1.jpg", "absent/x/1.jpg", "other/x/1.jpg"])
    np.savez(project / "data/x.npz", paths=paths, original=np.zeros((3, 2)))
    assert manifest.main(["absent"]) == 0
    folder = project / "cache/manifests/absent"
    assert read_images(folder / "images.csv")[0][2:] == (0, 0)
    assert json.loads((folder / "report.json").read_text())["made_from"] == "paths"


def test_generated_images(project):
    assert generate.main(["uci"]) == 0
    assert manifest.main(["uci"]) == 0
    report = json.loads((project / "cache/manifests/uci/report.json").read_text())
    assert (report["images"], len(report["classes"])) == (20, 10)


def test_unreadable_files_stop_with_a_list_of_all(project, capsys):
    (project / "data/photos/a/bad.png").write_bytes(b"not an image")
    whole = (project / "data/photos/b/0.png").read_bytes()
    (project / "data/photos/b/cut.png").write_bytes(whole[: len(whole) // 2])
    assert manifest.main(["photos"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("referee: error: data/photos: 2 files cannot be read as images")
    assert "\n  data/photos/a/bad.png: " in error
    assert "\n  data/photos/b/cut.png: " in error
    assert not (project / "cache").exists()

    change(project, "data: {", "data: {unreadable: skip, ")
    assert manifest.main(["photos"]) == 0
    report = json.loads((project / "cache/manifests/photos/report.json").read_text())
    assert list(report["unreadable"]) == ["data/photos/a/bad.png", "data/photos/b/cut.png"]
    assert report["images"] == 6


def test_a_decompression_bomb_is_unreadable(project, capsys):
    change(project, "data: {", "data: {max_pixels: 19, ")
    assert manifest.main(["photos"]) == 2
    assert "6 files cannot be read" in capsys.readouterr().err


def test_an_empty_class(project, capsys):
    change(project, "b: ball}", "b: ball, c: cup}")
    assert manifest.main(["photos"]) == 2
    assert "data/photos: 1 class has no images: c; add images" in capsys.readouterr().err
    change(project, "data: {", "data: {empty_class: report, ")
    assert manifest.main(["photos"]) == 0


def test_an_empty_class_folder_where_no_names_are_given(project, capsys):
    put(project / "data/free/x/1.png")
    (project / "data/free/y").mkdir()
    assert manifest.main(["free"]) == 2
    assert "data/free: 1 class has no images: y" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stage", "argument", "message"),
    [
        (manifest, "photo", "domains: there is no 'photo'; did you mean 'photos'?"),
        (manifest, "free", "data/free: no such folder; download the dataset there"),
        (manifest, "absent", "data/x.npz: no such file; correct the path"),
        (manifest, "listed", "cache/lists/l.txt: no such image list"),
        (image_list, "m", "lists: there is no 'm'; valid: l"),
        (image_list, "l", "data/photos/list.txt: no such image list; download it"),
        (generate, "photos", "generated: there is no 'photos'; valid: uci"),
    ],
)
def test_bad_arguments_and_missing_inputs(project, capsys, stage, argument, message):
    assert stage.main([argument]) == 2
    assert capsys.readouterr().err.startswith(f"referee: error: {message}")
    assert not (project / "cache").exists()


def test_a_bad_list_is_not_copied(project, capsys):
    (project / "data/photos/list.txt").write_text("a/1.jpg 0\n../b 1\n")
    assert image_list.main(["l"]) == 2
    assert "data/photos/list.txt: line 2: ../b: leaves the folder" in capsys.readouterr().err
    assert not (project / "cache").exists()


def test_a_failed_run_leaves_the_manifest_before_it(project):
    assert manifest.main(["photos"]) == 0
    folder = project / "cache/manifests/photos"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    (project / "data/photos/a/bad.png").write_bytes(b"not an image")
    assert manifest.main(["photos"]) == 2
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_bad_params_exit_with_2(project, capsys):
    change(project, "suite: mine", "siute: mine")
    assert manifest.main(["photos"]) == 2
    assert "params.yaml: siute: unknown key; did you mean 'suite'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "module",
    ["stages.generate", "stages.image_list", "stages.manifest", "cli.use", "cli.doctor"],
)
def test_no_torch_is_imported(module):
    code = f"import sys, pipeline.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_as_dvc_runs_it(project):
    command = [sys.executable, "-m", "pipeline.stages.manifest", "photos"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / "cache/manifests/photos/images.csv").is_file()
