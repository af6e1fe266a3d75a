"""`referee inspect` and `referee show-views`: their output, and the remedy if a path is missing."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.cli.main import main

pytestmark = pytest.mark.slow

VIT = "cache/embeddings/uci/vit.zarr"
SEVEN = "data/digits/uci/7/00007.png"


def test_inspect_describes_every_kind_of_store(digits_cwd, capsys):
    stores = sorted(str(path) for path in Path("cache").glob("**/*.zarr"))
    assert {store.split("/")[1] for store in stores} == {"embeddings", "prompts", "source", "target"}
    assert main(["inspect", *stores]) == 0
    text = capsys.readouterr().out
    assert all(f"{store}: " in text for store in stores)
    for part in (f"{VIT}: 120 rows, width 128", "wavelet haar, level 1, noise matched", "10 classes, width 128"):
        assert part in text
    assert main(["inspect", "--json", VIT]) == 0
    facts = json.loads(capsys.readouterr().out)[VIT]
    original = facts["arrays"]["original"]
    assert (original["dtype"], original["shape"], original["not_finite"]) == ("float16", [120, 128], 0)
    assert 0 < original["norm_min"] <= original["norm_median"] <= original["norm_max"]
    assert facts["provenance"]["model"]["library"] == "timm"
    assert len(facts["provenance"]["weights"]) == 64


def test_inspect_reports_missing_and_damaged_stores(digits_cwd, refused, tmp_path):
    line = refused(main, "inspect", "cache/none.zarr")
    assert "cache/none.zarr: no such store" in line
    assert "dvc repro" in line
    shutil.copytree(VIT, tmp_path / "vit.zarr")
    shard = tmp_path / "vit.zarr/rand/c/0/0"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "vit.zarr/rand: damaged" in refused(main, "inspect", str(tmp_path / "vit.zarr"))


def test_show_views_draws_a_picture(digits_cwd, capsys, tmp_path):
    picture = tmp_path / "deep" / "views.png"
    assert main(["show-views", SEVEN, "-o", str(picture)]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    pixels = np.asarray(Image.open(picture).convert("L"))
    assert pixels.shape[1] > 1000
    assert pixels.std() > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data/none.png"], "data/none.png: no such image; check its path"),
        (["data"], "data: this is a folder; name one image in it"),
        ([SEVEN, "--model", "vot"], "models: there is no 'vot'; did you mean 'vit'?"),
        ([SEVEN, "-o", "v.xyz"], "--output v.xyz: name a file that ends in .png"),
    ],
)
def test_show_views_refuses_wrong_arguments(digits_cwd, refused, arguments, message):
    assert message in refused(main, "show-views", *arguments)
