"""`referee check` and `referee doctor` report missing weights and images; doctor also reports on the machine."""

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from pipeline.cli import doctor
from pipeline.cli.main import main

MODELS = {
    "vit": {"library": "timm", "name": "vit_tiny_patch16_224", "origin": "weights/vit"},
    "clip": {"library": "open_clip", "name": "ViT-B-32", "pretrained": "openai", "origin": "weights/clip.pt"},
}
IMPORTED = {"library": "imported", "name": "x", "origin": "x.npz"}


@pytest.fixture
def project(params_only):
    """Change into a project with two small domains and weights of CLIP only."""
    params_only.write_params(params_only.read_params() | {"models": MODELS})
    for folder in (".git", ".dvc", "weights/vit"):
        Path(folder).mkdir(parents=True)
    Path("weights/clip.pt").write_bytes(b"x" * 2_000_000)
    add_images("left", a=3, b=1)
    add_images("right", a=3, b=1)
    return params_only


def add_images(domain, **classes):
    for name, count in classes.items():
        folder = Path("data", domain, name)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.new("L", (2, 2)).save(folder / f"{i}.png")


def run_doctor(capsys, *options):
    status = main(["doctor", *options])
    return status, capsys.readouterr().out


def test_complete_project_passes(project, capsys):
    status, out = run_doctor(capsys)
    assert status == 0
    assert "✗" not in out
    for part in (
        *("✓ Python 3.", "torch 2.", "✓ device cpu: ", "GB free on disk", "· no DVC remote"),
        "✓ models.clip.origin: weights/clip.pt, open_clip ViT-B-32, 2.0 MB",
        "· models.vit.origin: weights/vit",  # to be downloaded
        "✓ domains.left.images: data/left, 4 images, 2 classes of 1 to 3, median 2",
    ):
        assert part in out
    assert str(project.folder) not in out
    assert main(["check"]) == 0
    assert "note: models.vit.origin: weights/vit" in capsys.readouterr().out
    assert main(["check", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert "\n            3  a\n" in run_doctor(capsys, "--counts")[1]


@pytest.mark.parametrize(
    ("spoil", "key", "remedy"),
    [
        (lambda _: shutil.rmtree("data/left"), "domains.left.images: data/left", "put the images there"),
        (lambda _: [shutil.rmtree(f"data/left/{name}") for name in "ab"],
         "domains.left.images: data/left", "one folder per class"),
        (lambda _: Path("weights/clip.pt").unlink(), "models.clip.origin: weights/clip.pt", "put the checkpoint there"),
        (lambda project: project.change_params(models={"vit": IMPORTED}),
         "models.vit.origin: x.npz", "put the embeddings there"),
        (lambda _: add_images("right", c=1), "datasets.toy: ", "datasets.toy.class_names"),
        (lambda _: (add_images("left", c=0), add_images("right", c=0)),
         "domains.left.images: ", "data.empty_class: report"),
    ],
)  # fmt: skip
def test_missing_files_are_named_with_the_remedy(project, capsys, spoil, key, remedy):
    spoil(project)
    status, out = run_doctor(capsys)
    assert status == 1
    (line,) = [line for line in out.splitlines() if line.startswith(f"  ✗ {key}")]
    assert remedy in line
    assert main(["check", "--quiet"]) == 2
    assert key in capsys.readouterr().err


def test_empty_classes_and_images_to_be_generated_can_be_accepted(project, capsys):
    add_images("left", c=0)
    add_images("right", c=0)
    project.change_params(data={"empty_class": "report"})
    status, out = run_doctor(capsys)
    assert status == 0
    assert "· domains.left.images: data/left, 4 images, 3 classes" in out
    shutil.rmtree("data/left")
    project.change_params(generated={"left": {"folder": "data/left"}})
    status, out = run_doctor(capsys)
    assert status == 0
    assert "· domains.left.images: data/left → `dvc repro` writes it" in out
    assert main(["check"]) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runtime": {"devise": "cpu"}}, "params.yaml: runtime.devise: unknown key; did you mean 'device'?"),
        ({"models": {"vit": MODELS["vit"] | {"name": "vit_tiny_patch17_224"}}}, "models.vit.name: timm has no model"),
        ({"models": {"clip": MODELS["clip"] | {"name": "ViT-B-33"}}},
         "suite.yaml: models.clip.name: open_clip has no model"),
        ({"models": {"vit": MODELS["vit"] | {"preprocessing": {"crop_pt": 1}}}}, "did you mean 'crop_pct'?"),
        ({"method": {"variant": "calibratd"}}, "method.variant: no variant 'calibratd'"),
        ({"method": {"options": {"ridge": -1}}}, "params.yaml: method.options: ridge"),
        ({"compare": {"methods": ["fecam-psuedo"]}}, "did you mean 'fecam-pseudo'?"),
    ],
)  # fmt: skip
def test_impossible_values_are_refused(project, capsys, changes, message):
    project.change_params(**changes)
    assert main(["check"]) == 2
    assert message in capsys.readouterr().err
    status, out = run_doctor(capsys)
    assert status == 1
    assert message in out


def test_broken_dvc_lock_is_reported(project, capsys):
    Path("dvc.lock").write_text("stages: {")
    assert "git checkout HEAD -- dvc.lock" in run_doctor(capsys)[1]


def test_conflict_and_missing_git_dvc_and_device_are_reported(project, capsys):
    Path("dvc.lock").write_text("stages:\n<<<<<<< HEAD\n  a: 1\n=======\n  a: 2\n>>>>>>> theirs\n")
    Path(".git").rmdir()
    Path(".dvc").rmdir()
    project.change_params(runtime={"device": "cuda:99"})
    status, out = run_doctor(capsys)
    assert status == 1
    lines = [line for line in out.splitlines() if line.startswith("  ✗ ")]
    remedies = ("git init", "dvc init", "referee merge-lock", "runtime.device in params.yaml")
    for line, remedy in zip(lines, remedies, strict=True):
        assert remedy in line.rpartition(" → ")[2]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            "[core]\nremote = store\n['remote \"store\"']\nurl = s3://me:secret@bucket/x\n",
            "✓ DVC remote store: s3://bucket/x",
        ),
        ("[core]\nremote = gone\n", "✗ DVC remote gone: not configured"),
        ("['remote \"store\"']\nurl = /mnt/x\n", "· DVC remotes store: no default"),
        ("not a config", "✗ DVC: .dvc/config: "),
    ],
)
def test_dvc_remote_is_described_without_credentials(project, config, line):
    Path(".dvc/config").write_text(config)
    finding = doctor.check_remote()
    assert f"{finding.mark} {finding.subject}".startswith(line)


def test_closed_pipe_is_not_an_error(project):
    done = subprocess.run("referee doctor | true", shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
