"""`referee check` and `referee doctor`: one look at weights and images; doctor adds the machine."""

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from pipeline.cli import doctor
from pipeline.cli.main import main

PARAMS = """\
data: {}
views: {}
rff: {D: 10, sigma: 1e-4, convention: gamma, orthogonal: false}
method: {}
refinement: {}
select: {}
compare: {methods: [calibrated]}
sensitivity: {D: [10], sigma: [1e-4]}
"""
SUITE = """\
suite: mine
datasets: {mine: {classes_per_task: 1, class_names: {}}}
domains:
  photos: {dataset: mine, images: data/photos, views: [original], templates: ["a {}"]}
  drawings: {dataset: mine, images: data/drawings, views: [original], templates: ["a {}"]}
models:
  vit: {library: timm, name: vit_tiny_patch16_224, origin: weights/vit}
  clip: {library: open_clip, name: ViT-B-32, pretrained: openai, origin: weights/clip.pt}
vision: vit
language: clip
generated: {}
sources: {}
problems: {}
swept: {}
steps: {}
past: {}
joined: []
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change("params.yaml", PARAMS)
    change("suite.yaml", SUITE)
    for tool in (".git", ".dvc"):
        (tmp_path / tool).mkdir()
    (tmp_path / "weights/vit").mkdir(parents=True)
    (tmp_path / "weights/clip.pt").write_bytes(b"x" * 2_000_000)
    for domain in ("photos", "drawings"):
        put(domain, a=3, b=1)
    return tmp_path


def change(file, text, old="", new=""):
    assert old in text
    Path(file).write_text(text.replace(old, new) if old else text)


def put(domain, **classes):
    for name, count in classes.items():
        folder = Path("data", domain, name)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.new("L", (2, 2)).save(folder / f"{i}.png")


def screen(capsys, *options):
    status = main(["doctor", *options])
    return status, capsys.readouterr().out


def missing(capsys, key, remedy):
    """Assert that doctor and check both miss a key, with a remedy."""
    status, out = screen(capsys)
    assert status == 1
    (line,) = [line for line in out.splitlines() if line.startswith(f"  ✗ {key}")]
    assert remedy in line
    assert main(["check", "--quiet"]) == 2
    assert key in capsys.readouterr().err


def test_all_there(project, capsys):
    status, out = screen(capsys)
    assert status == 0
    assert "✗" not in out
    assert out.endswith("all there\n")
    for part in ("✓ Python 3.", "torch 2.", "✓ device auto: ", "GB free on disk", "· no DVC remote"):
        assert part in out
    assert "✓ models.clip.origin: weights/clip.pt, open_clip ViT-B-32, 2.0 MB" in out
    assert "· models.vit.origin: weights/vit" in out
    assert "✓ domains.photos.images: data/photos, 4 images, 2 classes of 1 to 3, median 2" in out
    assert len(out.splitlines()) < 25
    assert str(project) not in out
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "note: models.vit.origin: weights/vit: holds no weights" in out  # to be downloaded
    assert "suite mine, 2 domains, 2 models" in out
    assert main(["check", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert " 3  a\n" in screen(capsys, "--counts")[1]


def test_a_missing_folder(project, capsys):
    shutil.rmtree("data/photos")
    missing(capsys, "domains.photos.images: data/photos", "put the images there")
    Path("data/photos").mkdir()
    missing(capsys, "domains.photos.images: data/photos", "one folder per class")


def test_missing_weights(project, capsys):
    Path("weights/clip.pt").unlink()
    missing(capsys, "models.clip.origin: weights/clip.pt", "put the checkpoint there")
    change("suite.yaml", SUITE, "library: open_clip, name: ViT-B-32, pretrained: openai", "library: imported, name: x")
    missing(capsys, "models.clip.origin: weights/clip.pt", "put the embeddings there")


def test_empty_classes_are_named(project, capsys):
    for domain in ("photos", "drawings"):
        Path("data", domain, "nothing").mkdir()
    missing(capsys, "domains.photos.images: ", "data.empty_class: report")
    change("params.yaml", PARAMS, "data: {}", "data: {empty_class: report}")
    status, out = screen(capsys)
    assert status == 0
    assert "· domains.photos.images: " in out


def test_domains_with_different_classes(project, capsys):
    put("drawings", c=1)
    missing(capsys, "datasets.mine: ", "datasets.mine.class_names")


def test_generated_images_may_be_absent(project, capsys):
    shutil.rmtree("data/photos")
    change("suite.yaml", SUITE, "generated: {}", "generated: {photos: {folder: data/photos}}")
    status, out = screen(capsys)
    assert status == 0
    assert "· domains.photos.images: data/photos → `dvc repro` writes it" in out
    assert main(["check"]) == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("suite.yaml", "vision: vit", "visoin: vit", "suite.yaml: visoin: unknown key; did you mean 'vision'?"),
        ("suite.yaml", "vit_tiny_patch16_224", "vit_tiny_patch17_224", "models.vit.name: timm has no model"),
        ("suite.yaml", "ViT-B-32", "ViT-B-33", "suite.yaml: models.clip.name: open_clip has no model"),
        ("suite.yaml", "weights/vit}", "weights/vit, preprocessing: {crop_pt: 1}}", "did you mean 'crop_pct'?"),
        ("params.yaml", "method: {}", "method: {variant: calibratd}", "method.variant: no variant 'calibratd'"),
        ("params.yaml", "method: {}", "method: {options: {rigde: 1}}", "method.options.rigde: unknown; did you mean"),
        ("params.yaml", "method: {}", "method: {options: {ridge: -1}}", "params.yaml: method.options: ridge"),
        ("params.yaml", "[calibrated]", "[fecam-psuedo]", "did you mean 'fecam-pseudo'?"),
    ],
)  # fmt: skip
def test_values_that_cannot_be(project, capsys, file, old, new, message):
    change(file, PARAMS if file == "params.yaml" else SUITE, old, new)
    assert main(["check"]) == 2
    assert message in capsys.readouterr().err
    status, out = screen(capsys)
    assert status == 1
    assert message in out


def test_a_dvc_lock_with_a_conflict(project, capsys):
    Path("dvc.lock").write_text("stages:\n<<<<<<< HEAD\n  a: 1\n=======\n  a: 2\n>>>>>>> theirs\n")
    status, out = screen(capsys)
    assert status == 1
    (line,) = [line for line in out.splitlines() if line.startswith("  ✗ dvc.lock: ")]
    assert "referee merge-lock" in line


def test_an_absent_device(project, capsys):
    change("params.yaml", PARAMS + "runtime: {device: 'cuda:99'}\n")
    status, out = screen(capsys)
    assert status == 1
    assert "change runtime.device in params.yaml" in out


@pytest.mark.parametrize(
    ("config", "mark", "line"),
    [
        (
            "[core]\n    remote = store\n['remote \"store\"']\n    url = s3://me:secret@bucket/x\n",
            "✓",
            "DVC remote store: s3://bucket/x",
        ),
        ("[core]\n    remote = gone\n", "✗", "DVC remote gone: not configured"),
        ("['remote \"store\"']\n    url = /mnt/x\n", "·", "DVC remotes store: no default"),
        ("[core]\n    analytics = false\n", "·", "no DVC remote"),
        ("not a config", "✗", "DVC: .dvc/config: "),
    ],
)
def test_the_dvc_remote(project, config, mark, line):
    Path(".dvc/config").write_text(config)
    finding = doctor.dvc_remote()
    assert finding.mark == mark
    assert finding.subject.startswith(line)
    Path(".dvc/config").unlink()
    Path(".dvc").rmdir()
    assert "dvc init" in doctor.dvc_remote().remedy


def test_an_unpacked_archive_has_no_git(project, capsys):
    (project / ".git").rmdir()
    status, out = screen(capsys)
    assert status == 1
    assert "git init" in out


def test_the_reader_of_a_pipe_may_leave(project):
    done = subprocess.run("referee doctor | true", shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
