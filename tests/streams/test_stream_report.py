"""Test how a stream appears on the report's page and in `referee summary`."""

import json
import re

from pipeline.cli.main import main
from stream_project import prepare, run, step_entry


def page(project):
    """Run `report` without the project's problems and return the page."""
    params = project.read_params()
    params |= {"problems": {}, "swept": {}}
    project.write_params(params)
    run(project, "report")
    return project.results("report.html").read_text()


def embedded_json(html, name):
    """Return the JSON data embedded in the page under ``name``."""
    return json.loads(re.search(f'id="{name}">(.*?)</script>', html, re.DOTALL).group(1))


def test_the_page_shows_shares_confidence_and_the_least_certain_images(stepped):
    run(stepped, "step camera-week2")
    html = page(stepped)
    charts = embedded_json(html, "charts-stream-camera-week2")
    shares = {(v["step"], v["class"]): v["share"] for v in charts["shares"]["data"]["values"]}
    assert {c for step, c in shares if step == "week2"} == {"bee", "dog"}
    figures = json.loads(stepped.results("streams", "camera-week2.json").read_text())
    assert shares["week2", "bee"] == round(100 * figures["shares"]["bee"], 1)
    lines = charts["confidence"]["data"]["values"]
    assert [v["step"] for v in lines] == ["week1", "week2"]
    assert lines[1]["mean confidence"] == round(100 * figures["mean_confidence"], 1)
    assert len(re.findall('<img data-picture="', html)) == 12
    assert len(embedded_json(html, "album")) > 1


def test_a_private_or_forgotten_step_has_no_thumbnails(weeks):
    weeks.change_params(data={"private": ["week1"]})
    prepare(weeks, "week1")
    run(weeks, "step camera-week1")
    params = weeks.read_params()
    del params["steps"]["camera-week2"]
    weeks.write_params(params)
    assert embedded_json(page(weeks), "album") == {}
    params["steps"] = {}
    params["past"] = {"camera-week1": {"source": "left", "before": "source/left"}}
    weeks.write_params(params)
    html = page(weeks)
    assert embedded_json(html, "album") == {}
    assert "the images are gone" in html


def test_a_forked_stream_has_charts_for_each_branch(stepped):
    stepped.change_params(steps={"camera-night": step_entry("streams/camera-week1", "week2", "all")})
    run(stepped, "step camera-week2", "step camera-night")
    html = page(stepped)
    for last in ("week2", "night"):
        charts = embedded_json(html, f"charts-stream-camera-{last}")
        steps = {v["step"] for v in charts["confidence"]["data"]["values"]}
        assert steps == {"week1", last}


def test_summary_shows_finished_steps_without_a_probe(stepped, capsys):
    params = stepped.read_params() | {"problems": {}, "swept": {}}
    stepped.write_params(params)
    assert main(["summary"]) == 0
    figures = json.loads(stepped.results("streams", "camera-week1.json").read_text())
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("camera-")]
    assert rows == [["camera-week1", "12", "0", f"{figures['agreement']:.0%}", f"{figures['estimated_accuracy']:.0%}"]]
