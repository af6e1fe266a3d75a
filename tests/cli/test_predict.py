"""`referee predict` on real digits: agreement with `evaluate`, output formats and error messages."""

import csv
import io
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from pipeline.cli.main import main
from pipeline.datasets.manifest_files import read_images, read_labels
from pipeline.datasets.task_files import read_tasks
from pipeline.stage import main as run_stage
from pipeline.stages import evaluate

pytestmark = pytest.mark.slow

MANIFEST = Path("cache/manifests/uci")
PROBLEM = ("predict", "--problem", "mnist-uci")
SEVEN = "data/digits/uci/7/00007.png"


@pytest.fixture
def digits_cwd(digits_cwd, monkeypatch):
    monkeypatch.delattr("pipeline.extraction.executor.keep_freed_memory")  # for stages only, not for a user's process


def predict(capsys, *arguments):
    """Run `referee predict` and return its output."""
    assert main([*PROBLEM, *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture
def refused(refused):
    """Return a function that runs `referee predict`, which must fail, and returns its error line."""
    return partial(refused, main, *PROBLEM)


def top_classes(table):
    """Return the class of rank 1 for each image of a CSV text."""
    return [row["class"] for row in csv.DictReader(io.StringIO(table)) if row["rank"] == "1"]


def test_predictions_equal_those_scored_by_evaluate(linked_project, capsys, monkeypatch, tmp_path):
    scores_by_seed = []  # its tables do not contain the predictions
    tables = evaluate.problem_tables
    monkeypatch.setattr(
        evaluate, "problem_tables", lambda p, *rest: scores_by_seed.extend(p.scores) or tables(p, *rest)
    )
    assert run_stage(["evaluate", "mnist-uci"]) == 0
    capsys.readouterr()
    images, labels = read_images(MANIFEST), read_labels(MANIFEST)[0].astype(str)
    tasks, file, wrong = read_tasks(MANIFEST), tmp_path / "deep" / "labels.csv", 0
    for seed, scores in enumerate(scores_by_seed):
        test = np.flatnonzero(tasks.test_mask(seed))
        options = ("--seed", str(seed), "--format", "csv")
        predicted = top_classes(predict(capsys, *options, *(images[i].path for i in test)))
        assert predicted == [str(label) for label in scores.branches["fused"].label]
        wrong += (labels[test] != predicted).sum()
        old = test[tasks.task[test] < 2]
        line = predict(capsys, *options, "--after-task", "2", "-o", str(file), *(images[i].path for i in old))
        assert line == f"{file}: {len(old)} images\n"
        assert {row["class"] for row in csv.DictReader(io.StringIO(file.read_text()))} <= set("0123")
        right = labels[old] == top_classes(file.read_text())
        for task in (0, 1):
            assert right[tasks.task[old] == task].mean() == pytest.approx(scores.accuracy[1, task])
    assert wrong > 0  # otherwise, predictions copied from the labels would pass


def test_all_formats_have_the_same_predictions(digits_cwd, capsys):
    folder = "data/digits/uci/7"
    output = json.loads(predict(capsys, "--top", "2", "--format", "json", SEVEN, folder))
    images = output["images"]
    assert [image["image"] for image in images] == [
        SEVEN,  # named first, and not repeated with its folder
        *(str(path) for path in sorted(Path(folder).iterdir()) if str(path) != SEVEN),
    ]
    first = images[0]
    assert first["class"] == first["top"][0]["class"] == "7"
    assert first["confidence"] == first["top"][0]["confidence"] > first["top"][1]["confidence"] > 0
    favourite = max(first["top"], key=lambda c: c["klda"])
    assert first["klda"] == {"class": favourite["class"], "probability": favourite["klda"]}
    assert output["unreadable"] == {}
    model = output["model"]
    assert (model["after_task"], model["tasks"], model["classes"]) == (5, 5, list("0123456789"))
    assert len(model["vision"]["weights"]) == 64
    table = predict(capsys, "--format", "csv", "--top", "2", SEVEN)
    for row, candidate in zip(csv.DictReader(io.StringIO(table)), first["top"], strict=True):
        assert row["class"] == candidate["class"]
        for key in ("confidence", "klda", "clip"):
            assert float(row[key]) == candidate[key]
    *_, line = predict(capsys, "--top", "2", SEVEN).splitlines()
    assert line.split()[:3] == [SEVEN, "7", f"{100 * first['confidence']:.1f}%"]
    assert line.endswith(f"{first['top'][1]['class']} {100 * first['top'][1]['confidence']:.1f}%")


def test_folder_with_unreadable_images_and_other_files(digits_cwd, capsys, refused, tmp_path):
    with Image.open(SEVEN) as digit:
        digit.convert("RGB").resize((300, 200)).save(tmp_path / "photo.JPG")
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "._photo.jpg").write_text("macOS metadata")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(top_classes(predict(capsys, "--format", "csv", str(tmp_path)))) == 1
    (tmp_path / "cut.png").write_bytes(Path(SEVEN).read_bytes()[:60])
    (tmp_path / "empty.jpg").touch()
    assert main([*PROBLEM, str(tmp_path), "-o", str(tmp_path / "labels.csv")]) == 2
    error = capsys.readouterr().err
    for part in ("cut.png: ", "empty.jpg: ", "--unreadable skip"):
        assert part in error
    assert "photo.JPG" not in error
    assert not (tmp_path / "labels.csv").exists()
    assert main([*PROBLEM, "--unreadable", "skip", "--format", "json", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("referee: skipped: ") == 2
    predicted = json.loads(captured.out)
    assert [Path(image["image"]).name for image in predicted["images"]] == ["photo.JPG"]
    assert {Path(path).name for path in predicted["unreadable"]} == {"cut.png", "empty.jpg"}
    assert "cut.png" in refused("--unreadable", "skip", str(tmp_path / "cut.png"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.jpg",), "none.jpg: no such file or folder; check the path"),
        (("cache/prompts",), "cache/prompts: no image in this folder"),
        (("--seed", "7", SEVEN), "seed 7: the models were made for the seeds 0, 1"),
        (("--output", "data", SEVEN), "--output data: this is a folder; name a file in it"),
        (("--output", "x.docx", SEVEN), "--output x.docx: no format 'docx'; name a .csv, .json"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(digits_cwd, refused, arguments, message):
    assert message in refused(*arguments)


@pytest.mark.parametrize("store", ["target/mnist-uci.zarr", "bases/mnist.json"])
def test_missing_store_is_reported_with_the_remedy(linked_project, digits, refused, store):
    top = Path("cache") / store.split("/", maxsplit=1)[0]
    top.unlink()
    top.mkdir()
    line = refused(str(digits / SEVEN))
    assert f"cache/{store}: no such" in line
    assert "run dvc repro or dvc pull" in line


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("method", {"options": {"ridge": 0.5}}, "option ridge = 0.3, but params.yaml says 0.5"),
        ("method", {"variant": "no_clip"}, "run dvc repro, or put the section `method` back"),
        ("rff", {"sigma": 1e-3}, "cache/bases/mnist.json: drawn with rff.sigma = 0.0001, but params.yaml says 0.001"),
    ],
)
def test_settings_changed_since_the_fit_are_refused(linked_project, refused, section, changes, message):
    linked_project.change_params(**{section: changes})
    assert message in refused(SEVEN)


def test_model_that_differs_from_the_cached_features_is_refused(linked_project, refused):
    shutil.copytree("weights/digits/vit", "other")
    state = load_file("other/model.safetensors")
    name = next(name for name, tensor in state.items() if tensor.ndim == 2)
    state[name] = state[name].clone()
    state[name][0, 0] += torch.tensor(0.5, dtype=state[name].dtype)
    save_file(state, "other/model.safetensors")
    vit = linked_project.read_params()["models"]["vit"]
    linked_project.change_params(models={"vit": vit | {"origin": "other"}})
    line = refused(SEVEN)
    assert all(part in line for part in ("models.vit (other): its weights", "uci/vit.zarr", "dvc repro"))
    linked_project.change_params(models={"vit": vit | {"preprocessing": {"crop_pct": 0.5}}})
    assert "models.vit (weights/digits/vit): its preprocessing" in refused(SEVEN)
    linked_project.change_params(models={"vit": {"library": "imported", "name": "mine", "origin": "features.npz"}})
    line = refused(SEVEN)
    assert "models.vit: its embeddings were computed elsewhere" in line
    assert "referee export" in line
