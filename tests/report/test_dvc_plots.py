"""The templates of `dvc plots`, drawn without a network by the library in their page."""

import re
from pathlib import Path

import pytest
import vl_convert
from dvc_render.vega import VegaRenderer
from ruamel.yaml import YAML

from pipeline.report.dvc_plots import PAGE, plots_page
from report_content import ACCURACY, CAPTION, SELECTED, tables
from small_project import ROOT

GRAPH = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]
PLOTS = {
    Path(path).stem: settings
    for stage in GRAPH.values()
    for plot in stage.get("do", stage).get("plots", ())
    for path, settings in plot.items()
}
TABLES = {**tables(["ant", "bee", "cat"]), **ACCURACY, "values": SELECTED}
TEXTS = {  # texts in each plot besides the caption
    "tasks": {"1", "2", "3", "adapted", "source only", "CLIP alone"},
    "accuracy_matrix": {"1", "2", "3", "95", "after task"},
    "confusion": {"ant", "bee", "cat", "actual", "predicted"},
    "classes": {"ant", "bee", "cat"},
    "reliability": {"kernel LDA", "CLIP", "fusion"},
    "D": {"50", "500"},
    "sigma": {"0.0001", "0.01"},
    "values": {"A_T, by labels", "certainty", "views agree", "sigma = 0.01", "85"},
}


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_is_drawn_with_the_parameters_behind_it(name):
    # DVC reads CSV files as text and adds the revision
    rows = TABLES[name].assign(of=CAPTION).astype(str).to_dict("records")
    points = [{**row, "rev": rev} for rev in ("workspace", "HEAD") for row in rows]
    settings = {**PLOTS[name], "template_dir": str(ROOT / ".dvc/plots"), "title": "A title"}
    spec = VegaRenderer(points, "plot", **settings).get_filled_template()
    svg = vl_convert.vegalite_to_svg(spec, vl_version="6.4")
    texts = set(re.findall(r">([^<>]+)</t(?:ext|span)>", svg))
    assert TEXTS[name] | {"A title"} <= texts
    assert any(text.startswith("HEAD: n = 30") for text in texts)
    assert "1.5" not in texts  # tasks are whole numbers


def test_the_page_contains_the_installed_drawing_library_and_loads_nothing():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == plots_page(), "run python -m pipeline.report.dvc_plots"
    assert "{plot_divs}" in page
    assert not re.search(r"<(script|link)[^>]*(src|href)=", page.split("<script>")[0])
    config = (ROOT / ".dvc/config").read_text()
    assert f"html_template = {PAGE.relative_to('.dvc').as_posix()}" in config
