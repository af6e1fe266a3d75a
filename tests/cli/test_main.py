"""The commands that look at what the pipeline made, and the one that checks params.yaml."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.cli.main import main
from small_project import SmallProject

VIT = "cache/embeddings/left/vit.zarr"


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    said = capsys.readouterr().out
    for command in ("use", "check", "doctor", "inspect", "show-views", "summary"):
        assert command in said


def test_inspect_tells_what_a_store_holds(here, capsys):
    assert main(["inspect", VIT, "cache/prompts/left.zarr"]) == 0
    said = capsys.readouterr().out
    assert f"{VIT}: 12 rows, width 24" in said
    assert "wavelet haar, level 1, noise matched, seed 0" in said
    assert "text embeddings of 4 classes, width 16" in said
    assert main(["inspect", "--json", VIT]) == 0
    told = json.loads(capsys.readouterr().out)[VIT]
    rows = told["views"]["original"]
    assert rows["dtype"] == "float16"
    assert rows["not_finite"] == 0
    assert 0 < rows["norm_min"] <= rows["norm_median"] <= rows["norm_max"]
    assert told["provenance"]["model"]["library"] == "timm"
    assert len(told["provenance"]["weights"]) == 64


def test_inspect_knows_every_kind_of_store(digits, capsys, monkeypatch):
    monkeypatch.chdir(digits)
    stores = sorted(str(path) for path in Path("cache").glob("**/*.zarr"))
    kinds = {store.split("/")[1] for store in stores}
    assert kinds == {"embeddings", "prompts", "source", "pseudo_labels", "refined", "target"}
    assert main(["inspect", *stores]) == 0
    said = capsys.readouterr().out
    assert all(f"{store}: " in said for store in stores)


def test_inspect_of_what_is_no_store(here, capsys, tmp_path):
    assert main(["inspect", "cache/none.zarr"]) == 2
    assert "cache/none.zarr: no such store" in capsys.readouterr().err
    shutil.copytree(VIT, tmp_path / "vit.zarr")
    shard = tmp_path / "vit.zarr" / "rand" / "c" / "0" / "0"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert main(["inspect", str(tmp_path / "vit.zarr")]) == 2
    assert "vit.zarr/rand: damaged" in capsys.readouterr().err


def test_show_views_draws_a_picture(here, capsys, tmp_path):
    picture = tmp_path / "deep" / "views.png"
    assert main(["show-views", "data/left/ant/0.png", "-o", str(picture)]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    pixels = np.asarray(Image.open(picture).convert("L"))
    assert pixels.shape[1] > 1000
    assert pixels.std() > 10


def test_show_views_of_what_is_no_image(here, capsys, tmp_path):
    assert main(["show-views", "data/left/ant/none.png"]) == 2
    assert "data/left/ant/none.png: no such file" in capsys.readouterr().err
    assert main(["show-views", "data/left/ant/0.png", "--model", "vot"]) == 2
    assert "--model 'vot' is not in models; did you mean 'vit'?" in capsys.readouterr().err


def test_show_views_wants_a_picture_name(here, capsys):
    assert main(["show-views", "data/left/ant/0.png", "-o", "v.xyz"]) == 2
    assert "v.xyz: give a picture's name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"variant": "calibratd"},
            "method.variant: no variant 'calibratd'; did you mean 'calibrated'?",
        ),
        ({"options": {"rigde": 1}}, "method.options.rigde: unknown; did you mean 'ridge'?"),
        ({"options": {"ridge": -1}}, "method.options: ridge: a number from 0 on, not -1"),
    ],
)
def test_check_judges_what_only_the_method_knows(
    tmp_path, here, capsys, monkeypatch, changes, message
):
    other = SmallProject(tmp_path)
    other.write_params(here.read_params())
    other.change_params(method=changes)
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    assert message in capsys.readouterr().err


def test_check_judges_preprocessing(tmp_path, here, capsys, monkeypatch):
    params = here.read_params()
    params["models"]["vit"]["preprocessing"] = {"crop_pt": 1}
    SmallProject(tmp_path).write_params(params)
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    said = capsys.readouterr().err
    assert "models.vit.preprocessing.crop_pt: unknown key; did you mean 'crop_pct'?" in said


def test_summary_prints_the_figures(here, capsys):
    assert main(["summary"]) == 0
    said = capsys.readouterr().out
    assert "left" in said
    assert "zero-shot" in said
    assert "rand 0." in said or "rand 1." in said


def test_summary_before_anything_ran(tmp_path, here, capsys, monkeypatch):
    shutil.copy("params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["summary"]) == 2
    assert "results/probes/left.json: no such file; run dvc repro" in capsys.readouterr().err


def test_check_passes_and_names_what_is_missing(here, capsys, tmp_path, monkeypatch):
    assert main(["check"]) == 0
    assert "suite toy, 1 domains, 2 models: valid" in capsys.readouterr().out
    shutil.copy("params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    said = capsys.readouterr().err
    assert "models.vit.origin: weights/vit: no such file or folder" in said
    assert "domains.left.images: data/left: no such file or folder" in said
    (tmp_path / "dvc.lock").write_text(
        ""
    )  # a teammate without images or weights is served from the cache
    assert main(["check", "--quiet"]) == 0
    assert "domains.left.images: data/left: no such file or folder" in capsys.readouterr().err


def test_check_judges_the_compared_methods(tmp_path, here, capsys, monkeypatch):
    params = here.read_params()
    params["compare"]["methods"] = ["calibrated", "streaming-lda-psuedo"]
    SmallProject(tmp_path).write_params(params)
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    said = capsys.readouterr().err
    assert "params.yaml: compare.methods: no method 'streaming-lda-psuedo'" in said
    assert "did you mean 'streaming-lda-pseudo'?" in said
