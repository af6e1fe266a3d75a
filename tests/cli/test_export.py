"""`referee export`: with the lines of docs/how-to/prediction.md alone, the file gives what `predict` gives."""

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


def python(script, folder):
    """Run a script as somebody else would, in a folder of theirs."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def about(path):
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["referee"])


def embeddings():
    return [open_embeddings(Path(f"cache/embeddings/uci/{model}.zarr")) for model in ("vit", "clip")]


def predicted(capsys, *arguments):
    """Return every class's fused probability by `referee predict`, images in order."""
    every = ("predict", "--problem", "mnist-uci", "--top", "10", "--format", "json")
    capsys.readouterr()
    assert main([*every, *arguments]) == 0
    images = json.loads(capsys.readouterr().out)["images"]
    return [{c["class"]: c["confidence"] for c in image["top"]} for image in images]


def exported(folder, *arguments):
    path = folder / "classifier.safetensors"
    assert main(["export", "--problem", "mnist-uci", "--output", str(path), *arguments]) == 0
    return path


EARLY = ("--after-task", "2", "--seed", "1")


@pytest.mark.parametrize(
    ("variant", "choice", "views"),
    [("calibrated", (), 3), ("calibrated", EARLY, 3), ("no_clip", EARLY, 3)]
    + [(variant, EARLY, 1) for variant in ("released", "source_only", "clip_zero_shot")],
)
def test_plain_torch_gives_what_predict_gives(adapted_as, tmp_path, capsys, variant, choice, views):
    adapted_as({"variant": variant})
    path = exported(tmp_path, *choice)
    vit, clip = embeddings()
    rows = {view: vit.read(view) for view in about(path)["views"]}
    assert list(rows) == ["original", "zeros", "rand"][:views]
    np.savez(tmp_path / "rows.npz", clip=clip.read("original"), **rows)
    python(PLAIN.format(example=CLASSIFY), tmp_path)
    p = np.load(tmp_path / "p.npy")
    output = predicted(capsys, *choice, "data/digits/uci")
    classes = about(path)["classes"]
    assert classes == list("0123" if choice else "0123456789")
    assert len(output) == len(p) == 120
    expected = np.array([[image[name] for name in classes] for image in output])
    # one row of `released` was seen 8e-6 apart; the cause is not traced
    np.testing.assert_allclose(p, expected, atol=2e-6 if variant == "calibrated" else 2e-5)


def test_from_a_photo_with_timm_and_open_clip(adapted_as, tmp_path, capsys):
    # the page's example has the original view alone
    adapted_as({"options": {"vote_at_test": False}})
    exported(tmp_path)
    shutil.copytree(ROOT / "weights/digits", tmp_path / "weights/digits")
    vit = tmp_path / "weights/digits/vit/model.safetensors"  # with a classifier, as most checkpoints of timm
    save_file({**load_file(vit), "head.weight": torch.zeros(5, 128), "head.bias": torch.zeros(5)}, vit)
    seven = Path("data/digits/uci/7/00007.png")
    (tmp_path / "photo.png").write_bytes(seven.read_bytes())
    lines = python(CLASSIFY + FROM_A_PHOTO, tmp_path).splitlines()
    (output,) = predicted(capsys, str(seven))
    best = sorted(output, key=output.get, reverse=True)[:3]
    assert [line.split()[0] for line in lines] == best
    for line, name in zip(lines, best, strict=True):
        assert float(line.split()[1]) == pytest.approx(output[name], abs=3e-3)


def test_the_header_names_both_backbones_and_has_the_page_s_example(here, tmp_path):
    path = exported(tmp_path)
    output = about(path)
    assert CLASSIFY == EXAMPLE == output["example"]
    assert output["schema"] == "referee-classifier/2"
    assert output["problem"] == "mnist-uci"
    assert output["vision"]["model"]["name"] == "vit_tiny_patch16_224"
    vit, clip = embeddings()
    assert output["language"]["weights"] == clip.provenance["weights"]
    assert output["language"]["preprocessing"] == clip.provenance["preprocessing"]
    tensors = load_file(path)
    assert tensors["omega"].shape == (vit.width + clip.width, 20)
    assert tensors["W"].shape == (20, 10)


def test_the_same_model_gives_the_same_bytes(here, tmp_path, capsys):
    mine = exported(tmp_path).read_bytes()
    other = tmp_path / "other.safetensors"  # another process: nothing may hang on its hash seed
    arguments = ["export", "--problem", "mnist-uci", "--output", str(other)]
    python(f"from pipeline.cli.main import main\nmain({arguments})", here)
    assert other.read_bytes() == mine
    for folder in (ROOT, tmp_path, here):
        assert str(folder).encode() not in mine


def test_a_model_that_is_no_linear_classifier_is_refused(adapted_as, tmp_path, refused):
    adapted_as({"variant": "nearest_mean"})
    path = tmp_path / "no.safetensors"
    line = refused(main, "export", "--problem", "mnist-uci", "-o", str(path))
    assert "predictor: nearest_mean is no linear classifier" in line
    assert not path.exists()
