"""`referee predict` on real digits: the pipeline's own figures again, every format, every mistake."""

import csv
import io
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr
from PIL import Image
from safetensors.torch import load_file, save_file

from pipeline.cli.main import main
from pipeline.datasets.manifest_files import read_images, read_labels, read_tasks
from pipeline.execution.extraction import Picture
from pipeline.method.random_fourier_features import deviation
from pipeline.params import load_params
from pipeline.stages import evaluate
from pipeline.stages.new_images import embed_new
from pipeline.store.basis_file import basis_digest, read_bases, write_bases
from pipeline.store.embedding_store import open_embeddings

pytestmark = pytest.mark.slow

MANIFEST = Path("cache/manifests/uci")
PROBLEM = ("predict", "--problem", "mnist-uci")
SEVEN = "data/digits/uci/7/00007.png"


@pytest.fixture
def here(digits, monkeypatch):
    monkeypatch.chdir(digits)


def said(capsys, *arguments):
    """Run `referee predict`, which must succeed; return what it said."""
    assert main([*PROBLEM, *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    """Run `referee predict`, which must fail in the agreed way; return its line."""
    assert main([*PROBLEM, *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("referee: error: ")
    return told.err


def target(seed):
    """Return paths, labels and tasks of the target's test images of a seed."""
    images = read_images(MANIFEST / "images.csv")
    tasks = read_tasks(MANIFEST / "tasks.csv", rows=len(images))
    labels = [row.label for row in read_labels(MANIFEST / "labels.csv", images=images)]
    test = np.flatnonzero(tasks.is_test(seed))
    return [images[i].path for i in test], np.array(labels)[test], tasks.task[test]


def winners(table):
    """Return the class of rank 1 of every image of a CSV."""
    return [row["class"] for row in csv.DictReader(io.StringIO(table)) if row["rank"] == "1"]


def test_the_labels_are_those_that_evaluate_counted(lookalike, capsys, monkeypatch):
    counted = []  # its table is sorted and does not tell whose label is whose, so it is asked before it sorts
    keep = lambda _folder, scores, *_, **__: counted.extend(scores)  # noqa: E731
    monkeypatch.setattr(evaluate, "write_tables", keep)
    assert evaluate.main(["mnist-uci"]) == 0
    capsys.readouterr()
    wrong = 0
    for seed in (0, 1):
        paths, labels, _ = target(seed)
        predicted = winners(said(capsys, "--seed", str(seed), "--format", "csv", *paths))
        assert predicted == [str(label) for label in counted[seed].predicted]
        wrong += sum(mine != str(label) for mine, label in zip(predicted, labels, strict=True))
    assert wrong > 0  # a model that never errs would hide a prediction that is taken from the label


def test_the_accuracy_after_an_earlier_task_is_that_of_evaluate(here, capsys, tmp_path):
    with Path("results/tables/mnist-uci/accuracy_matrix.csv").open() as file:
        matrix = {(row["after_task"], row["task"]): row["accuracy"] for row in csv.DictReader(file)}
    accuracy, file = {1: [], 2: []}, tmp_path / "deep" / "told.csv"
    for seed in (0, 1):
        paths, labels, tasks = target(seed)
        old = [path for path, task in zip(paths, tasks, strict=True) if task < 2]
        table = said(capsys, "--seed", str(seed), "--after-task", "2", "-o", str(file), *old)
        assert table == f"{file}: {len(old)} images\n"
        text = file.read_text()
        assert {row["class"] for row in csv.DictReader(io.StringIO(text))} <= set("0123")
        right = np.array(winners(text)) == [str(label) for label in labels[tasks < 2]]
        for task, of_task in accuracy.items():
            of_task.append(right[tasks[tasks < 2] == task - 1].mean())
    for task, of_task in accuracy.items():
        assert float(matrix["2", str(task)]) == pytest.approx(100 * np.mean(of_task), abs=0.006)


def test_an_earlier_model_is_the_one_of_its_columns(here, capsys):
    """After task 2 the classifier has four classes: columns 2 to 5 of the store, behind the two of task 1."""
    choice = ("--seed", "1", "--after-task", "2", "--top", "4", "--format", "json")
    told = json.loads(said(capsys, *choice, "data/digits/uci/1"))
    assert told["model"]["classes"] == list("0123")
    store = zarr.open_group("cache/target/mnist-uci.zarr", mode="r")
    assert store.attrs["seen"] == [2, 4, 6, 8, 10]
    basis = read_bases(Path("cache/bases/mnist.json")).basis(1)
    images = [image.path for image in read_images(MANIFEST / "images.csv")]
    for image in told["images"]:
        row = images.index(image["image"])
        g, c = (
            open_embeddings(Path(f"cache/embeddings/uci/{model}.zarr"))
            .read("original")[row]
            .astype(float)
            for model in ("vit", "clip")
        )
        x = np.concatenate([g / np.linalg.norm(g), 0.5 * c / np.linalg.norm(c)])
        z = deviation(basis.joint(), x[None])
        logits = (z.astype(float) @ store["W"][1][:, 2:6] + store["b"][1][2:6])[0]
        p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        klda = {candidate["class"]: candidate["klda"] for candidate in image["top"]}
        assert [klda[name] for name in "0123"] == pytest.approx(list(p), abs=1e-4)


@pytest.mark.parametrize("model", ["vit", "clip"])
def test_an_image_of_the_pipeline_gets_the_row_of_its_store(here, model):
    store = open_embeddings(Path(f"cache/embeddings/uci/{model}.zarr"))
    images = read_images(MANIFEST / "images.csv")
    some = [5, 100, 3, 47, 5]  # in another order, one of them twice
    pictures = [Picture(Path(images[i].path), bytes.fromhex(images[i].sha256)) for i in some]
    rows = embed_new(load_params(), model, store, pictures, ("original", "rand"))
    for view in ("original", "rand"):
        np.testing.assert_array_equal(rows[view], store.read(view)[some])


def test_every_format_tells_the_same(here, capsys):
    folder = "data/digits/uci/7"
    told = json.loads(said(capsys, "--top", "2", "--format", "json", SEVEN, folder))
    images = told["images"]
    assert [image["image"] for image in images] == [
        SEVEN,  # as named first, and not again in its folder
        *(str(path) for path in sorted(Path(folder).iterdir()) if str(path) != SEVEN),
    ]
    first = images[0]
    assert first["class"] == first["top"][0]["class"] == "7"
    assert first["confidence"] == first["top"][0]["confidence"] > first["top"][1]["confidence"] > 0
    favourite = max(first["top"], key=lambda c: c["klda"])
    assert first["klda"] == {"class": favourite["class"], "probability": favourite["klda"]}
    assert told["unreadable"] == {}
    assert told["model"]["after_task"] == told["model"]["tasks"] == 5
    assert told["model"]["classes"] == list("0123456789")
    assert len(told["model"]["vision"]["weights"]) == 64
    rows = list(csv.DictReader(io.StringIO(said(capsys, "--format", "csv", "--top", "2", SEVEN))))
    assert [row["rank"] for row in rows] == ["1", "2"]
    for row, c in zip(rows, first["top"], strict=True):
        assert row["class"] == c["class"]
        values = [float(row[key]) for key in ("confidence", "klda", "clip")]
        assert values == [c["confidence"], c["klda"], c["clip"]]
    heading, _, header, _, line = said(capsys, "--top", "2", SEVEN).splitlines()
    assert heading == "mnist-uci, after task 5 of 5, seed 0: 10 classes"
    assert header.split() == [
        "image",
        "class",
        "confidence",
        "KLDA",
        "(vit)",
        "CLIP",
        "(clip)",
        "next",
    ]
    assert line.split()[:3] == [SEVEN, "7", f"{100 * first['confidence']:.1f}%"]
    assert line.endswith(f"{first['top'][1]['class']} {100 * first['top'][1]['confidence']:.1f}%")


def test_a_confidence_is_the_fusion_of_both_branches(here, capsys):
    """Eq. (14) by hand, from the branches' own figures."""
    for image in json.loads(said(capsys, "--format", "json", "--top", "10", "data/digits/uci/3"))[
        "images"
    ]:
        sure, certain = (image[branch]["probability"] for branch in ("klda", "clip"))
        alpha = sure / (sure + certain)
        for c in image["top"]:
            assert c["confidence"] == pytest.approx(
                alpha * c["klda"] + (1 - alpha) * c["clip"], abs=3e-6
            )
        assert sum(c["confidence"] for c in image["top"]) == pytest.approx(1, abs=1e-5)


def test_a_photo_of_another_kind_is_classified_too(here, capsys, tmp_path):
    with Image.open(SEVEN) as digit:
        digit.convert("RGB").resize((300, 200)).save(tmp_path / "photo.JPG")
    (tmp_path / "notes.txt").write_text("not an image, and not asked for")
    (tmp_path / "._photo.jpg").write_text("what another system left beside it")
    (tmp_path / "round").symlink_to(tmp_path)
    table = said(capsys, "--format", "csv", str(tmp_path))
    assert len(winners(table)) == 1


@pytest.fixture
def broken(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    shutil.copy(SEVEN, folder / "good.png")
    (folder / "cut.png").write_bytes(Path(SEVEN).read_bytes()[:60])
    (folder / "empty.jpg").touch()
    return folder


def test_unreadable_images_stop_it_with_all_their_names(here, capsys, broken):
    line = refused(capsys, str(broken), "-o", str(broken / "told.csv"))
    assert "cut.png: damaged or truncated image" in line
    assert "empty.jpg: the file is empty" in line
    assert "good.png" not in line
    assert "--unreadable skip" in line
    assert not (broken / "told.csv").exists()


def test_unreadable_images_are_skipped_and_named(here, capsys, broken):
    assert main([*PROBLEM, "--unreadable", "skip", "--format", "json", str(broken)]) == 0
    told = capsys.readouterr()
    assert told.err.count("referee: skipped: ") == 2
    predicted = json.loads(told.out)
    assert [Path(image["image"]).name for image in predicted["images"]] == ["good.png"]
    assert {Path(path).name for path in predicted["unreadable"]} == {"cut.png", "empty.jpg"}
    line = refused(capsys, "--unreadable", "skip", str(broken / "cut.png"))  # none is left
    assert "cut.png: damaged" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.jpg",), "none.jpg: no such file or folder; check the path"),
        (("cache/prompts",), "cache/prompts: no image in this folder"),
        (("--after-task", "6", SEVEN), "--after-task 6: mnist-uci has the tasks 1 to 5"),
        (("--after-task", "0", SEVEN), "--after-task 0: mnist-uci has the tasks 1 to 5"),
        (("--seed", "7", SEVEN), "--seed 7: the models were made for the seeds 0, 1"),
        (("--problem", "mnist-uic", SEVEN), "there is no 'mnist-uic'; did you mean 'mnist-uci'?"),
        (("--output", "data", SEVEN), "--output data: is a folder; name a file in it"),
    ],
)
def test_a_wrong_argument_is_one_line(here, capsys, arguments, message):
    line = refused(capsys, *arguments)
    assert message in line
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    "place",
    ["target/mnist-uci.zarr", "bases/mnist.json", "prompts/uci.zarr", "embeddings/uci/vit.zarr"],
)
def test_a_store_that_is_not_there_says_how_to_get_it(lookalike, digits, capsys, place):
    top = Path("cache") / place.split("/", maxsplit=1)[0]
    top.unlink()
    top.mkdir()
    line = refused(capsys, str(digits / SEVEN))
    assert f"cache/{place}: no such" in line
    assert "run dvc repro or dvc pull" in line


def test_a_name_that_is_not_text_is_one_line(here, digits, tmp_path, capsys):
    odd = os.fsencode(tmp_path) + b"/\xff.png"
    try:
        with open(odd, "wb") as file:  # noqa: PTH123
            file.write((digits / SEVEN).read_bytes())
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    assert "/\\udcff.png: this name is not UTF-8; rename" in refused(capsys, os.fsdecode(odd))


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        (
            "method",
            {"options": {"ridge": 0.5}},
            "method option ridge = 0.3, but params.yaml says 0.5",
        ),
        ("method", {"variant": "no_clip"}, "run dvc repro, or put the section `method` back"),
        (
            "rff",
            {"D": 21},
            "cache/bases/mnist.json: drawn with rff.D = 20, but params.yaml says 21",
        ),
        (
            "rff",
            {"convention": "median"},
            "rff.convention = 'gamma', but params.yaml says 'median'",
        ),
        ("rff", {"sigma": 1e-3}, "drawn with rff.sigma = 0.0001, but params.yaml says 0.001"),
    ],
)
def test_params_that_moved_on_are_noticed(lookalike, capsys, section, changes, message):
    lookalike.change_params(**{section: changes})
    assert message in refused(capsys, SEVEN)


@pytest.mark.parametrize(("model", "file"), [("vit", "model"), ("clip", "open_clip_model")])
def test_other_weights_than_those_of_the_store_are_refused(lookalike, capsys, model, file):
    shutil.copytree(f"weights/digits/{model}", "other")
    state = load_file(f"other/{file}.safetensors")
    name = next(name for name, tensor in state.items() if tensor.ndim == 2)
    state[name] = state[name].clone()
    state[name][0, 0] += torch.tensor(0.5, dtype=state[name].dtype)
    save_file(state, f"other/{file}.safetensors")
    params = lookalike.read_params()
    params["models"][model]["origin"] = "other"
    lookalike.write_params(params)
    line = refused(capsys, SEVEN)
    assert f"models.{model} (other): its weights today" in line
    assert f"differs from what cache/embeddings/uci/{model}.zarr was made with" in line
    assert "put the former model back, or run dvc repro" in line


def test_another_preprocessing_than_that_of_the_store_is_refused(lookalike, capsys):
    params = lookalike.read_params()
    params["models"]["vit"]["preprocessing"] = {"crop_pct": 0.5}
    lookalike.write_params(params)
    assert "models.vit (weights/digits/vit): its preprocessing today" in refused(capsys, SEVEN)


def test_imported_features_have_no_encoder(lookalike, capsys):
    params = lookalike.read_params()
    params["models"]["vit"] = {"library": "imported", "name": "mine", "origin": "features.npz"}
    lookalike.write_params(params)
    line = refused(capsys, SEVEN)
    assert "models.vit: its embeddings were computed elsewhere" in line
    assert "referee export" in line


def test_top_must_be_a_number_from_one(here, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*PROBLEM, "--top", "0", SEVEN])
    assert "argument --top: 0 is not a whole number from 1 on" in capsys.readouterr().err


def test_a_model_of_other_bases_is_not_used(lookalike, digits, capsys):
    """A basis drawn anew, an adaptation not yet made: features and classifier would not belong together."""
    (lookalike.folder / "cache/bases").unlink()
    made = read_bases(digits / "cache/bases/mnist.json")
    recipe = replace(made.recipe, seeds=tuple(seed + 1 for seed in made.recipe.seeds))
    drawn = [basis_digest(recipe.draw(index)) for index in range(len(recipe.seeds))]
    write_bases(lookalike.folder / "cache/bases/mnist.json", recipe, drawn)
    line = refused(capsys, SEVEN)
    assert "cache/target/mnist-uci.zarr: made under other bases than cache/bases/mnist.json" in line
