"""`referee export`: the file and the code of docs/how-to/prediction.md reproduce `referee predict`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pipeline.cli.main import main
from pipeline.store.embedding_store import open_embeddings
from pipeline.store.exported_classifier import EXAMPLE
from small_project import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/how-to/prediction.md").read_text(encoding="utf-8")
CLASSIFY, FROM_A_PHOTO = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PLAIN = """
import sys
import numpy as np
{example}
rows = np.load("rows.npz")
p = classify([torch.from_numpy(rows[view]) for view in about["views"]], torch.from_numpy(rows["clip"]))
np.save("p.npy", p.numpy())
assert not [name for name in sys.modules if name.split(".")[0] in ("pipeline", "zarr", "timm", "open_clip")]
"""


def run_python(script, folder):
    """Run a script in another process and folder; return its output."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_header(path):
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["referee"])


def open_both_embeddings():
    return [open_embeddings(Path(f"cache/embeddings/uci/{model}.zarr")) for model in ("vit", "clip")]


def predict(capsys, *arguments):
    """Return the fused probability of each class from `referee predict`, one dict per image."""
    capsys.readouterr()
    assert main(["predict", "--problem", "mnist-uci", "--top", "10", "--format", "json", *arguments]) == 0
    images = json.loads(capsys.readouterr().out)["images"]
    return [{c["class"]: c["confidence"] for c in image["top"]} for image in images]


def export(folder, *arguments):
    path = folder / "classifier.safetensors"
    assert main(["export", "--problem", "mnist-uci", "--output", str(path), *arguments]) == 0
    return path


EARLY = ("--after-task", "2", "--seed", "1")


@pytest.mark.parametrize(
    ("variant", "choice", "views"),
    [("calibrated", (), 3), ("calibrated", EARLY, 3), ("no_clip", EARLY, 3)]
    + [(variant, EARLY, 1) for variant in ("released", "source_only", "clip_zero_shot")],
)
def test_plain_torch_reproduces_predict(refit, tmp_path, capsys, variant, choice, views):
    refit({"variant": variant})
    path = export(tmp_path, *choice)
    vit, clip = open_both_embeddings()
    rows = {view: vit.read(view) for view in read_header(path)["views"]}
    assert list(rows) == ["original", "zeros", "rand"][:views]
    np.savez(tmp_path / "rows.npz", clip=clip.read("original"), **rows)
    run_python(PLAIN.format(example=CLASSIFY), tmp_path)
    p = np.load(tmp_path / "p.npy")
    output = predict(capsys, *choice, "data/digits/uci")
    classes = read_header(path)["classes"]
    assert classes == list("0123" if choice else "0123456789")
    assert len(output) == len(p) == 120
    expected = np.array([[image[name] for name in classes] for image in output])
    # one row of `released` differed by 8e-6; the cause is unknown
    np.testing.assert_allclose(p, expected, atol=2e-6 if variant == "calibrated" else 2e-5)


def test_documented_example_with_timm_and_open_clip_reproduces_predict(refit, tmp_path, capsys):
    # the example uses the original view only
    refit({"options": {"vote_at_test": False}})
    export(tmp_path)
    shutil.copytree(ROOT / "weights/digits", tmp_path / "weights/digits")
    vit = tmp_path / "weights/digits/vit/model.safetensors"  # add a head, as most timm checkpoints have one
    save_file({**load_file(vit), "head.weight": torch.zeros(5, 128), "head.bias": torch.zeros(5)}, vit)
    seven = Path("data/digits/uci/7/00007.png")
    (tmp_path / "photo.png").write_bytes(seven.read_bytes())
    lines = run_python(CLASSIFY + FROM_A_PHOTO, tmp_path).splitlines()
    (output,) = predict(capsys, str(seven))
    best = sorted(output, key=output.get, reverse=True)[:3]
    assert [line.split()[0] for line in lines] == best
    for line, name in zip(lines, best, strict=True):
        assert float(line.split()[1]) == pytest.approx(output[name], abs=3e-3)


def test_header_describes_both_backbones_and_contains_the_documented_example(digits_cwd, tmp_path):
    path = export(tmp_path)
    header = read_header(path)
    assert CLASSIFY == EXAMPLE == header["example"]
    assert header["schema"] == "referee-classifier/2"
    assert header["problem"] == "mnist-uci"
    assert header["vision"]["model"]["name"] == "vit_tiny_patch16_224"
    vit, clip = open_both_embeddings()
    assert header["language"]["weights"] == clip.provenance["weights"]
    assert header["language"]["preprocessing"] == clip.provenance["preprocessing"]
    tensors = load_file(path)
    assert tensors["omega"].shape == (vit.width + clip.width, 20)
    assert tensors["W"].shape == (20, 10)


def test_same_model_gives_the_same_bytes(digits_cwd, tmp_path, capsys):
    content = export(tmp_path).read_bytes()
    other = tmp_path / "other.safetensors"  # written by a process with another hash seed
    arguments = ["export", "--problem", "mnist-uci", "--output", str(other)]
    run_python(f"from pipeline.cli.main import main\nmain({arguments})", digits_cwd)
    assert other.read_bytes() == content
    for folder in (ROOT, tmp_path, digits_cwd):
        assert str(folder).encode() not in content


def test_model_that_is_not_a_linear_classifier_is_refused(refit, tmp_path, refused):
    refit({"variant": "nearest_mean"})
    path = tmp_path / "no.safetensors"
    line = refused(main, "export", "--problem", "mnist-uci", "-o", str(path))
    assert "predictor: nearest_mean is not a linear classifier" in line
    assert not path.exists()
