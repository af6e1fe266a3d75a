import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest
from PIL import Image

from pipeline.cli import doctor, doctor_machine
from pipeline.cli.use import use

ROOT = Path(__file__).parents[2]
PARAMS = """\
suite: mine
datasets:
  mine:
    classes_per_task: 1
    class_names: {}
domains:
  photos: {dataset: mine, images: data/photos, views: [original], templates: ["a {}"]}
  drawings: {dataset: mine, images: data/drawings, views: [original], templates: ["a {}"]}
models:
  vit: {library: timm, name: vit_tiny_patch16_224, origin: weights/vit}
  clip: {library: open_clip, name: ViT-B-32, pretrained: openai, origin: weights/clip.pt}
vision: vit
language: clip
generated: {}
lists: {}
sources: {}
problems: {}
data: {}
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
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "weights/vit").mkdir(parents=True)
    (tmp_path / "weights/clip.pt").write_bytes(b"x" * 2_000_000)
    for domain in ("photos", "drawings"):
        put(tmp_path, domain, a=3, b=1)
    return tmp_path


def put(project, domain, **classes):
    for name, count in classes.items():
        folder = project / "data" / domain / name
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.new("L", (2, 2)).save(folder / f"{i}.png")


def screen(capsys, *, counts=False):
    status = doctor.run(Namespace(counts=counts))
    return status, capsys.readouterr().out


def test_all_there(project, capsys):
    status, out = screen(capsys)
    assert status == 0
    assert "✗" not in out
    assert out.endswith("all there\n")
    assert "✓ Python 3." in out
    assert "torch 2." in out
    assert "✓ device auto: " in out
    assert "GB free on disk" in out
    assert "✓ clip: open_clip ViT-B-32: weights/clip.pt, 2.0 MB" in out
    assert (
        "· vit: timm vit_tiny_patch16_224: no file in weights/vit → downloaded from the hub" in out
    )
    assert "✓ photos: 4 images in data/photos, 2 classes of 1 to 3, median 2" in out
    assert "· no DVC remote" in out
    assert len(out.splitlines()) < 25
    assert str(project) not in out


def test_counts_lists_every_class(project, capsys):
    _, out = screen(capsys, counts=True)
    assert "      3  a\n" in out
    assert "      1  b\n" in out


def test_a_missing_folder_and_missing_weights(project, capsys):
    shutil.rmtree(project / "data/photos")
    (project / "weights/clip.pt").unlink()
    status, out = screen(capsys)
    assert status == 1
    assert "✗ photos: data/photos: no such folder → download the dataset there" in out
    assert "✗ clip: open_clip ViT-B-32: no weights/clip.pt → put the file there" in out


def test_a_folder_with_two_checkpoints(project, capsys):
    for name in ("a.safetensors", "b.pth"):
        (project / "weights/vit" / name).write_text("x")
    status, out = screen(capsys)
    assert status == 1
    assert "weights/vit holds 2 checkpoints → name the one to use in models.vit.origin" in out


def test_empty_classes_are_named(project, capsys):
    for domain in ("photos", "drawings"):
        (project / "data" / domain / "nothing").mkdir()
    status, out = screen(capsys)
    assert status == 1
    assert "no images of nothing → add images, or set data.empty_class: report" in out
    (project / "params.yaml").write_text(PARAMS.replace("data: {}", "data: {empty_class: report}"))
    status, out = screen(capsys)
    assert status == 0
    assert "· photos: " in out


def test_domains_with_different_classes(project, capsys):
    put(project, "drawings", c=1)
    status, out = screen(capsys)
    assert status == 1
    assert "✗ mine: not both photos and drawings have the classes c → name all classes" in out


def test_a_domain_without_images(project, capsys):
    shutil.rmtree(project / "data/photos")
    (project / "data/photos").mkdir()
    status, out = screen(capsys)
    assert status == 1
    assert "✗ photos: no images in data/photos" in out


def test_generated_images_may_be_absent(project, capsys):
    shutil.rmtree(project / "data/photos")
    (project / "params.yaml").write_text(
        PARAMS.replace("generated: {}", "generated: {photos: {folder: data/photos}}")
    )
    status, out = screen(capsys)
    assert status == 0
    assert "· photos: data/photos is not there yet → `dvc repro` writes it" in out


def test_lists_are_read_where_the_dataset_has_them(project, capsys):
    (project / "data/list.txt").write_text("photos/a/0.png 0\nphotos/b/0.png 1\n")
    lists = "lists: {l: {file: data/list.txt, domain: photos, root: data}}"
    (project / "params.yaml").write_text(PARAMS.replace("lists: {}", lists))
    assert "✓ photos: 2 images" in screen(capsys)[1]


def test_bad_params(project, capsys):
    (project / "params.yaml").write_text(PARAMS.replace("vision: vit", "visoin: vit"))
    status, out = screen(capsys)
    assert status == 1
    assert "✗ params.yaml: visoin: unknown key; did you mean 'vision'? → mend the key" in out


def test_an_absent_device(project, capsys):
    (project / "params.yaml").write_text(PARAMS + "runtime: {device: 'cuda:99'}\n")
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
        ("not a config", "✗", ".dvc/config: "),
    ],
)
def test_the_dvc_remote(tmp_path, config, mark, line):
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text(config)
    [finding] = doctor_machine.dvc_remote(tmp_path)
    assert finding.mark == mark
    assert finding.what.startswith(line)


def test_no_dvc_at_all(tmp_path):
    [finding] = doctor_machine.dvc_remote(tmp_path)
    assert (finding.mark, "dvc init" in finding.remedy) == ("✗", True)


def test_little_room(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor_machine.shutil, "disk_usage", lambda path: Namespace(free=1e8))
    [finding] = doctor_machine.room(tmp_path)
    assert str(finding) == "  ✗ 0.1 GB free on disk → make room: 2 GB or more"


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(doctor_machine, "PACKAGES", ("numpy", "no-such-package"))
    findings = list(doctor_machine.python_and_packages())
    assert findings[-1].what == "not installed: no-such-package"


def test_every_suite_fits_on_one_screen(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "suites", tmp_path / "suites")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    use("all21", Path("params.yaml"))
    status, out = screen(capsys)
    assert status == 1
    assert len(out.splitlines()) < 30


def test_the_parser():
    parser = ArgumentParser()
    doctor.add_parser(parser.add_subparsers())
    args = parser.parse_args(["doctor", "--counts"])
    assert args.counts
    assert args.run is doctor.run
