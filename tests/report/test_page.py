"""The page as text: escaped, self-contained, reproducible, with each picture stored once."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.config.settings import Views
from pipeline.report import view_picture
from pipeline.report.page import problem_charts as charts_of
from pipeline.report.page.content import result_warnings
from pipeline.report.page.page import render_page
from pipeline.report.page.pictures import add_picture, read_pictures
from pipeline.report.page.problem_charts import confusion, embedding_map, problem_charts, spread_labels
from report_content import AWKWARD, MADE_WITH, MANY, problem, report_content

THREE = problem("left-right", ["ant", "bee", "cat"], 70)
SHOWN = THREE.tables["shown"]


@pytest.fixture(autouse=True)
def _no_drawing_library(monkeypatch):
    monkeypatch.setattr("pipeline.report.page.page.drawing_library", lambda: "let vegaEmbed;")


def charts_by_key(results):
    return {chart.key: chart for chart in problem_charts(results)}


def test_the_page_loads_nothing_and_class_names_never_become_markup():
    page = render_page(report_content())
    found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'<]*", page)
    assert set(found) == {"https://vega.github.io/schema/vega-lite/v6.json"}
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page)
    assert not any(name in page for name in AWKWARD[:2])
    assert page.count("<script>") == 2  # the library and our own
    (data,) = re.findall(r'id="charts-p-left-right">(.*?)</script>', page)
    assert "<" not in data
    assert {cell["actual"] for cell in json.loads(data)["confusion"]["data"]["values"]} == set(AWKWARD)


def test_every_chart_names_the_stage_and_file_it_comes_from():
    charts = charts_by_key(report_content()["problems"][0])
    assert list(charts) == [
        *("tasks", "matrix", "forgetting", "confusion", "map", "methods", "weights"),
        *("reliability-klda", "reliability-clip", "reliability-fused", "over-D", "over-sigma"),
        "selection",
    ]
    results = Path("results/toy/problems/left-right")
    assert charts["matrix"].origin == ("evaluate@left-right", results / "tables/accuracy_matrix.csv")
    assert charts["methods"].origin.stage == "compare@left-right"
    assert charts["over-D"].origin.file == results / "sensitivity/D.csv"
    page = render_page(report_content())
    assert all(f"dvc repro {chart.origin.stage}</code>" in page for chart in charts.values())


def test_selection_marks_the_choices_of_each_score_and_of_labels():
    chart = charts_by_key(report_content()["problems"][0])["selection"]
    cells = {(cell["score"], cell["at"]): cell for cell in chart.spec["data"]["values"]}
    assert {key for key, cell in cells.items() if cell["taken"]} == {
        ("A_T, by labels", "sigma = 0.0001"),
        ("A_T, by labels", "class_priors = counted"),
        ("certainty", "sigma = 0.01"),
        ("certainty", "class_priors = counted"),
        ("views agree", "sigma = 0.0001"),
        ("views agree", "class_priors = balanced"),
    }
    assert cells["certainty", "sigma = 0.0001"]["share"] == 0
    assert cells["views agree", "class_priors = balanced"]["share"] == 1
    assert ["sigma", "certainty", "0.01", "0.0001", 5.0, "-1.00"] in chart.rows


def test_confusion_adds_up_lists_the_worst_and_omits_the_rarest_of_very_many(monkeypatch):
    chart = confusion(THREE)
    shares = {}
    for cell in chart.spec["data"]["values"]:
        shares[cell["actual"]] = shares.get(cell["actual"], 0) + cell["share"]
    assert shares == pytest.approx(dict.fromkeys(("ant", "bee", "cat"), 100), abs=0.02)
    # images 0, 5 and 10 of 12 are predicted as ant; they are ant, cat and bee
    assert chart.rows == [["bee", "ant", 1, 25.0], ["cat", "ant", 1, 25.0]]
    monkeypatch.setattr(charts_of, "MOST_DRAWN", 3)
    few = confusion(THREE)
    cells = {(c["actual"], c["predicted"]): c["images"] for c in few.spec["data"]["values"]}
    assert cells == {("ant", "ant"): 4, ("bee", "bee"): 3, ("cat", "cat"): 3}
    assert "Only the 3 most frequent of 5 cells are drawn" in few.note
    assert few.rows == chart.rows  # the table still counts all cells


def test_axes_of_many_classes_have_no_names():
    axes = [confusion(results).spec["encoding"]["x"]["axis"] for results in (problem("left-many", MANY, 60), THREE)]
    assert [axis.get("labels", True) for axis in axes] == [False, True]


def test_names_on_the_map_do_not_overlap_and_are_omitted_for_very_many_classes():
    centres = {"monitor": (100.0, 50.0), "keyboard": (110.0, 52.0), "laptop": (105.0, 60.0), "mug": (400.0, 51.0)}
    placed = spread_labels(centres)
    assert {name: placed[name] for name in ("monitor", "mug")} == {name: centres[name] for name in ("monitor", "mug")}
    assert min(np.diff(sorted(placed[name][1] for name in ("monitor", "keyboard", "laptop")))) >= 16
    assert {name: x for name, (x, _) in placed.items()} == {name: x for name, (x, _) in centres.items()}
    many = problem("left-many", MANY, 60)
    assert [len(embedding_map(results).spec["layer"]) for results in (many, THREE)] == [2, 4]


def test_missing_results_are_left_out_or_explained():
    # a single task, a private target
    empty = {name: THREE.tables[name].iloc[:0] for name in ("forgetting", "map", "shown")}
    metrics = THREE.metrics.model_copy(update={"pseudo_label_accuracy": None, "weight_auroc": None})
    compared = THREE.comparison.model_copy(deep=True)
    compared.methods["paper"].failed = "why"
    results = dataclasses.replace(THREE, tables=THREE.tables | empty, metrics=metrics, comparison=compared)
    charts = charts_by_key(results)
    assert not {"forgetting", "map"} & charts.keys()
    assert "REFEREE as printed" not in [row[0] for row in charts["methods"].rows]
    page = render_page(report_content() | {"problems": [results], "hashes": []})
    for text in ("every test image of every seed was predicted correctly", "no</b> pseudo-labels kept", "no dvc.lock"):
        assert text in page


def test_results_made_with_other_parameters_are_named():
    results = report_content()["problems"][:1]
    assert "made with" not in " ".join(result_warnings(results, MADE_WITH))
    warnings = " ".join(result_warnings(results, MADE_WITH | {"rff.D": 7}))
    for name in ("evaluation of left-right", "comparison of left-right", *results[0].sweeps.made_with):
        assert name in warnings


def test_each_picture_is_in_the_album_once():
    album = {}
    grey = np.full((300, 200, 3), 90, np.uint8)
    assert add_picture(album, grey, 128) == add_picture(album, grey, 128)
    add_picture(album, grey, 48)
    kinds = [address.split(";")[0] for address in album.values()]
    assert kinds == ["data:image/webp", "data:image/png"]


def draw_images(folder, numbers):
    folder.mkdir(parents=True)
    for i in numbers:
        pixels = np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")


def read(album, images="data", level=1, views=("original", "zeros"), code=None):
    options = {"settings": Views(level=level).model_dump(), "preprocessing": None, "max_pixels": 10**6}
    return read_pictures(SHOWN, "right", album, images=images, views=views, code=code, **options)


@pytest.mark.parametrize(("images", "folder"), [("data", ""), ("f/all.npz", "f/images/"), ("f/all.npz", "f/")])
def test_pictures_are_read_where_the_images_are(tmp_path, monkeypatch, images, folder):
    monkeypatch.chdir(tmp_path)
    missing = read({}, images)
    assert not missing.mistakes
    assert "images of right are not on this machine" in missing.missing
    draw_images(tmp_path / folder / "data", (0, 1))
    (tmp_path / folder / "data/2.png").write_bytes(b"damaged")
    album = {}
    pictures = read(album, images)
    assert list(pictures.mistakes) == ["data/1.png"]
    assert list(pictures.views["data/0.png"]) == ["original", "zeros", "removed"]  # only views of the domain
    assert len(album) == 4


def test_views_are_cached_until_the_settings_or_the_code_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_images(tmp_path / "data", (0,))
    drawn, draw = [], view_picture.view_pixels
    monkeypatch.setattr(view_picture, "view_pixels", lambda *args: drawn.append(args) or draw(*args))
    albums = []
    for level, code in ((1, "a"), (1, "a"), (2, "a"), (1, "b"), (1, None)):
        albums.append({})
        read(albums[-1], level=level, code=code)
    assert len(drawn) == 4
    assert albums[0] == albums[1] == albums[3] == albums[4] != albums[2]
    pictures = read({}, code="a", views=("original",))
    assert [*pictures.views["data/0.png"]] == ["original", "removed"]
    assert "zeros: " not in pictures.views_note
