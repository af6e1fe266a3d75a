"""The page as text: escaped, self-contained, the same bytes, each picture once."""

import dataclasses
import json
import re

import numpy as np
import pytest
from PIL import Image

from pipeline.method.frequency_views import ViewSettings
from pipeline.method.view_names import VIEWS
from pipeline.report import view_picture
from pipeline.report.page import problem_charts as charts_of
from pipeline.report.page.page import render_page
from pipeline.report.page.pictures import add_picture, read_pictures
from pipeline.report.page.problem_charts import confusion, embedding_map, problem_charts, spread_labels
from report_content import AWKWARD, MANY, problem, report_content


@pytest.fixture(autouse=True)
def _no_drawing_library(monkeypatch):
    monkeypatch.setattr("pipeline.report.page.page.drawing_library", lambda: "let vegaEmbed;")


def test_the_page_loads_nothing_and_class_names_never_become_markup():
    page = render_page(report_content())
    found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'<]*", page)
    assert set(found) == {"https://vega.github.io/schema/vega-lite/v6.json"}
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page)
    for name in AWKWARD[:2]:
        assert name not in page
    assert page.count("<script>") == 2  # the library's and ours
    (data,) = re.findall(r'id="charts-p-left-right">(.*?)</script>', page)
    assert "<" not in data
    cells = json.loads(data)["confusion"]["data"]["values"]
    assert {cell["actual"] for cell in cells} == set(AWKWARD)


def test_every_chart_names_the_stage_and_file_it_comes_from():
    charts = {chart.key: chart for chart in problem_charts(report_content()["problems"][0])}
    assert list(charts) == [
        *("tasks", "matrix", "forgetting", "confusion", "map", "methods", "weights"),
        *("reliability-klda", "reliability-clip", "reliability-fused", "over-D", "over-sigma"),
        "selection",
    ]
    assert charts["matrix"].origin == (
        "evaluate@left-right",
        "results/toy/problems/left-right/tables/accuracy_matrix.csv",
    )
    assert charts["methods"].origin.stage == "compare@left-right"
    assert charts["over-D"].origin.file == "results/toy/problems/left-right/sensitivity/D.csv"
    page = render_page(report_content())
    for chart in charts.values():
        assert f"dvc repro {chart.origin.stage}</code>" in page


def test_selection_marks_what_each_score_and_what_labels_choose():
    chart = {c.key: c for c in problem_charts(report_content()["problems"][0])}["selection"]
    cells = chart.spec["data"]["values"]
    assert {(cell["score"], cell["at"]) for cell in cells if cell["taken"]} == {
        ("A_T, by labels", "sigma = 0.0001"),
        ("A_T, by labels", "class_priors = counted"),
        ("certainty", "sigma = 0.01"),
        ("certainty", "class_priors = counted"),
        ("views agree", "sigma = 0.0001"),
        ("views agree", "class_priors = balanced"),
    }
    shares = {(cell["score"], cell["at"]): cell["share"] for cell in cells}
    assert shares["certainty", "sigma = 0.0001"] == 0
    assert shares["views agree", "class_priors = balanced"] == 1
    assert ["sigma", "certainty", "0.01", "0.0001", 5.0, "-1.00"] in chart.rows


def test_confusion_adds_up_and_lists_the_worst():
    chart = confusion(problem("left-right", ["ant", "bee", "cat"], 70))
    shares = {}
    for cell in chart.spec["data"]["values"]:
        shares[cell["actual"]] = shares.get(cell["actual"], 0) + cell["share"]
    assert shares == pytest.approx(dict.fromkeys(("ant", "bee", "cat"), 100), abs=0.02)
    # images 0, 5, 10 are taken for ant: of 12 images in turns, these are ant, cat, bee
    assert chart.rows == [["bee", "ant", 1, 25.0], ["cat", "ant", 1, 25.0]]


def test_many_classes_are_drawn_without_their_names():
    many, few = problem("left-many", MANY, 60), problem("left-right", ["ant", "bee"], 60)
    assert len(embedding_map(many).spec["layer"]) == 2
    assert len(embedding_map(few).spec["layer"]) == 4
    assert confusion(many).spec["encoding"]["x"]["axis"]["labels"] is False
    assert len(confusion(many).spec["layer"]) == 1


def test_of_very_many_confusions_the_rarest_are_not_drawn(monkeypatch):
    monkeypatch.setattr(charts_of, "DRAWN", 3)
    chart = confusion(problem("left-right", ["ant", "bee", "cat"], 70))
    cells = {(c["actual"], c["predicted"]): c["n"] for c in chart.spec["data"]["values"]}
    assert cells == {("ant", "ant"): 4, ("bee", "bee"): 3, ("cat", "cat"): 3}
    assert "Of 5 cells the 3 most frequent are drawn" in chart.note
    assert len(chart.rows) == 2  # the table is of all


def test_names_on_the_map_do_not_cover_each_other():
    near = {"monitor": (100.0, 50.0), "keyboard": (110.0, 52.0), "laptop": (105.0, 60.0)}
    placed = spread_labels({**near, "mug": (400.0, 51.0)})
    assert placed["monitor"] == (100.0, 50.0)
    assert placed["mug"] == (400.0, 51.0)
    assert min(np.diff(sorted(placed[name][1] for name in near))) >= 16
    assert {name: placed[name][0] for name in near} == {name: x for name, (x, _) in near.items()}


def without(results, table):
    """Return the results with one table emptied."""
    empty = results.tables[table].iloc[:0]
    return dataclasses.replace(results, tables={**results.tables, table: empty})


def test_charts_without_values_are_left_out():
    results = without(without(problem("left-right", ["ant", "bee"], 60), "forgetting"), "map")
    keys = [chart.key for chart in problem_charts(results)]
    assert "forgetting" not in keys  # a single task
    assert "map" not in keys  # a private target


def test_a_method_that_failed_is_not_drawn():
    content = report_content()
    first = content["problems"][0]
    failed = first.comparison.methods["paper"].model_copy(update={"failed": "why"})
    compared = first.comparison.model_copy(update={"methods": {**first.comparison.methods, "paper": failed}})
    broken = dataclasses.replace(first, comparison=compared)
    charts = {chart.key: chart for chart in problem_charts(broken)}
    assert "REFEREE as printed" not in [row[0] for row in charts["methods"].rows]
    render_page(content | {"problems": [broken, *content["problems"][1:]]})


def test_no_mistakes_and_no_pseudo_labels():
    content = report_content()
    results = without(content["problems"][0], "shown")
    metrics = results.metrics.model_copy(update={"pseudo_label_accuracy": None, "weight_auroc": None})
    results = dataclasses.replace(results, metrics=metrics)
    page = render_page(content | {"problems": [results]})
    assert "every test image of every seed was predicted correctly" in page
    assert "<b>no</b> pseudo-labels right" in page


def test_each_picture_is_in_the_album_once():
    album = {}
    grey = np.full((300, 200, 3), 90, np.uint8)
    assert add_picture(album, grey, 128) == add_picture(album, grey, 128)
    add_picture(album, grey, 48)
    kinds = [address.split(";")[0] for address in album.values()]
    assert kinds == ["data:image/webp", "data:image/png"]


@pytest.mark.parametrize(("images", "folder"), [("data", ""), ("f/all.npz", "f/images/"), ("f/all.npz", "f/")])
def test_pictures_are_read_where_the_images_are(tmp_path, monkeypatch, images, folder):
    monkeypatch.chdir(tmp_path)
    settings = {"images": images, "preprocessing": None, "max_pixels": 10**6}
    results = problem("left-right", ["ant", "bee", "cat"], 70)
    missing = read_pictures(results.tables["shown"], "right", {}, views=ViewSettings(), **settings)
    assert not missing.mistakes
    assert "images of right are not on this machine" in missing.missing
    data = tmp_path / folder / "data"
    data.mkdir(parents=True)
    for i in range(2):
        pixels = np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(data / f"{i}.png")
    (data / "2.png").write_bytes(b"damaged")
    album = {}
    pictures = read_pictures(results.tables["shown"], "right", album, views=ViewSettings(), **settings)
    assert list(pictures.mistakes) == ["data/1.png"]
    assert list(pictures.views["data/0.png"]) == [*VIEWS, "removed"]
    assert len(album) == len(VIEWS) + 2


def test_views_are_kept_until_the_settings_or_the_code_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)).save("data/0.png")
    drawn, draw = [], view_picture.view_pixels
    monkeypatch.setattr(view_picture, "view_pixels", lambda *of: drawn.append(of) or draw(*of))
    settings = {"images": "data", "preprocessing": None, "max_pixels": 10**6}
    albums = []
    for views, code in ((1, "a"), (1, "a"), (2, "a"), (1, "b"), (1, None)):
        albums.append({})
        results = problem("left-right", ["ant", "bee", "cat"], 70)
        read_pictures(
            results.tables["shown"], "right", albums[-1], views=ViewSettings(level=views), code=code, **settings
        )
    assert len(drawn) == 4
    assert albums[0] == albums[1] == albums[3] == albums[4] != albums[2]
