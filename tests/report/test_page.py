"""The page as text: escaped, self-contained, the same bytes, each picture once."""

import dataclasses
import json
import re

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.report.page import confusion_chart
from pipeline.report.page.confusion_chart import confusion
from pipeline.report.page.drawing_library import drawing_library
from pipeline.report.page.embedding_map import embedding_map, spread_labels
from pipeline.report.page.markup import anchor, json_island
from pipeline.report.page.page import means_first, page, policy
from pipeline.report.page.pictures import Album, data_address
from pipeline.report.page.problem_results import read_metrics, read_rows
from pipeline.report.page.problem_section import problem_charts
from pipeline.report.page.provenance import lock_hashes, provenance_section
from pipeline.report.page.task_charts import forgetting
from report_content import AWKWARD, MANY, problem, report_content


def test_the_same_content_gives_the_same_bytes():
    assert page(report_content("let x;")) == page(report_content("let x;"))


def test_the_page_names_no_address_but_that_of_the_schema():
    found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'<]*", page(report_content()))
    assert set(found) == {"https://vega.github.io/schema/vega-lite/v6.json"}
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page(report_content()))


def test_islands_hold_any_text():
    value = {"a": "</script><!-- & \u2028", "b": [1.5, None]}
    island = json_island("x", value)
    inside = re.fullmatch(r'<script type="application/json" id="x">(.*)</script>', island)[1]
    assert "<" not in inside
    assert json.loads(inside) == value
    with pytest.raises(ValueError, match="JSON"):
        json_island("x", float("nan"))


def test_no_class_name_becomes_markup():
    made = page(report_content())
    for name in AWKWARD[:2]:
        assert name not in made
    assert made.count("<script>") == 2  # the library's and ours


def test_the_policy_allows_the_two_scripts_by_hash_and_no_network():
    said = policy(["let a;", "let b;"])
    assert said.startswith("default-src 'none'; script-src 'sha256-")
    assert said.count("'sha256-") == 2
    assert "unsafe-eval" not in said
    assert policy(["let a;", "let c;"]) != said
    assert "http" not in said


def test_the_library_is_one_script_that_needs_nothing():
    script = drawing_library()
    assert "window.vegaEmbed" in script
    assert "</script" not in script
    assert not re.search(r"\bimport\s*[\w{*].*from\s*['\"]", script[:2000] + script[-2000:])
    assert len(script) < 1_500_000


def test_every_figure_of_a_problem_says_how_it_is_made_again():
    results = problem("left-right", ["ant", "bee"], 70, swept=True)
    charts = problem_charts(results)
    assert [chart.key for chart in charts] == [
        *("tasks", "matrix", "forgetting", "confusion", "map", "methods", "weights"),
        *("reliability-klda", "reliability-clip", "reliability-fused", "over-D", "over-sigma"),
    ]
    stages = {chart.key: chart.origin.stage for chart in charts}
    assert stages["matrix"] == "evaluate@left-right"
    assert stages["methods"] == "compare@left-right"
    assert stages["over-D"] == "sensitivity@left-right"
    made = page(report_content())
    for chart in charts[:3]:
        assert f"dvc repro {chart.origin.stage}</code>" in made


def test_confusion_adds_up_and_lists_the_worst():
    chart = confusion(problem("left-right", ["ant", "bee", "cat"], 70))
    shares = {}
    for cell in chart.spec["data"]["values"]:
        shares[cell["actual"]] = shares.get(cell["actual"], 0) + cell["share"]
    assert shares == pytest.approx(dict.fromkeys(("ant", "bee", "cat"), 100), abs=0.02)
    # images 0, 5, 10 are taken for ant: of 12 images in turns, these are ant, cat, bee
    assert chart.rows == [("bee", "ant", 1, 25.0), ("cat", "ant", 1, 25.0)]


def test_many_classes_are_drawn_without_their_names():
    many, few = problem("left-many", MANY, 60), problem("left-right", ["ant", "bee"], 60)
    assert len(embedding_map(many).spec["layer"]) == 2
    assert len(embedding_map(few).spec["layer"]) == 4
    assert confusion(many).spec["encoding"]["x"]["axis"]["labels"] is False
    assert len(confusion(many).spec["layer"]) == 1


def test_of_very_many_confusions_the_rarest_are_not_drawn(monkeypatch):
    monkeypatch.setattr(confusion_chart, "DRAWN", 3)
    chart = confusion(problem("left-right", ["ant", "bee", "cat"], 70))
    cells = {(c["actual"], c["predicted"]): c["n"] for c in chart.spec["data"]["values"]}
    assert cells == {("ant", "ant"): 4, ("bee", "bee"): 3, ("cat", "cat"): 3}
    assert "Of 5 cells the 3 most frequent are drawn" in chart.note
    assert len(chart.rows) == 2  # the table is of all


def test_names_on_the_map_do_not_cover_each_other():
    near = {
        "monitor": (100.0, 50.0),
        "keyboard": (110.0, 52.0),
        "laptop": (105.0, 60.0),
        "mug": (400.0, 51.0),
    }
    placed = spread_labels(near)
    assert placed["monitor"] == (100.0, 50.0)
    assert placed["mug"] == (400.0, 51.0)
    heights = sorted(y for name, (_, y) in placed.items() if name != "mug")
    assert min(np.diff(heights)) >= 16
    assert {name: x for name, (x, _) in placed.items()} == {
        name: x for name, (x, _) in near.items()
    }


def test_the_mean_comes_before_the_problems():
    (table,) = report_content().methods
    assert [column.key for column in table.columns][-1] == "mean"
    moved = means_first(table)
    assert [column.key for column in moved.columns] == [
        "mean",
        "left-right",
        "left-many",
        "right-left",
    ]
    assert moved.blocks[0].rows[0].cells[0] == table.blocks[0].rows[0].cells[-1]


def test_the_sentence_to_remember():
    assert "<b>72.0 ± 0.0 %</b> on average over 3 problems, +8.0 points over" in page(
        report_content()
    )


def test_one_task_forgets_nothing():
    single = dataclasses.replace(problem("left-right", ["ant", "bee"], 60), forgetting=[])
    assert forgetting(single) is None
    assert "forgetting" not in [chart.key for chart in problem_charts(single)]


def test_a_page_without_problems():
    empty = dataclasses.replace(
        report_content(), headline=None, methods=[], problems=[], pictures={}
    )
    made = page(empty)
    assert "has no problems" in made
    assert "What was run" in made


def test_each_picture_is_in_the_page_once():
    album = Album()
    grey = np.full((300, 200, 3), 90, np.uint8)
    first, second = album.add(data_address(grey, 128)), album.add(data_address(grey, 128))
    assert first == second
    assert album.add(data_address(grey, 48)) != first
    assert [address.split(";")[0] for address in album.pictures.values()] == [
        "data:image/webp",
        "data:image/png",
    ]


def test_ids_of_problems():
    assert anchor("amazon-dslr") == "p-amazon-dslr"
    assert anchor("a b") != anchor("a-b")
    assert re.fullmatch(r"[\w-]+", anchor("a→ü <b>"), re.ASCII)


def test_hashes_are_those_of_the_lock():
    lock = {
        "stages": {
            "embed@a": {"outs": [{"path": "cache/e.zarr", "md5": "12.dir", "size": 5}]},
            "code": {"outs": [{"path": "cache/code/x.json", "md5": "1"}]},
            "report": {"outs": [{"path": "results/report.html", "md5": "2"}]},
            "none": {},
        }
    }
    (one,) = lock_hashes(lock)
    assert (one.path, one.stage, one.digest, one.size) == ("cache/e.zarr", "embed@a", "12.dir", 5)
    assert lock_hashes({}) == []
    told = dataclasses.replace(report_content().provenance, hashes=[])
    assert "There is no dvc.lock" in provenance_section(told)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "its columns do not begin with task,best"),
        ("task,worst\n1,2\n", "its columns do not begin with task,best"),
        ("task,best\n1\n", "line 2: 1 values, not 2"),
        ("task,best\n1,2\n2,x\n", "line 3: best: 'x' is no number"),
        ("task,best\n1,nan\n", "line 2: best: 'nan' is no number"),
    ],
)
def test_a_malformed_table_is_one_line(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(StoreError) as caught:
        read_rows(path, ("task", "best"), "evaluate@a-b")
    assert str(caught.value) == f"{path}: {message}; run dvc repro --force evaluate@a-b"


def test_tables_and_metrics_that_are_missing_or_malformed(tmp_path):
    with pytest.raises(StoreError, match="no such file; run dvc repro evaluate@a-b"):
        read_rows(tmp_path / "none.csv", ("task",), "evaluate@a-b")
    path = tmp_path / "m.json"
    path.write_text('{"A_T": "high"}')
    with pytest.raises(StoreError, match="A_T: missing or not a number"):
        read_metrics(path, "evaluate@a-b")
    path.write_text("[1]")
    with pytest.raises(StoreError, match="A_T: missing or not a number"):
        read_metrics(path, "evaluate@a-b")
    path.write_text("{")
    with pytest.raises(StoreError, match="not JSON"):
        read_metrics(path, "evaluate@a-b")
