"""A stream that rejects images: they are answered `unknown` and enter no statistics; the next step goes on."""

import json

import pytest

from pipeline import open_cache
from stream_project import answers, change_step, run, state


@pytest.fixture
def rejecting(weeks):
    """Two weeks, the second with two candidate classes, of a method that rejects."""
    weeks.change_params(method={"variant": "rejecting"})
    run(weeks, "source left", "step camera-week1", "step camera-week2")
    return weeks


def test_rejected_images_are_unknown_and_enter_no_statistics(rejecting, capsys):
    weeks = ("camera-week1", "camera-week2")
    rows = {week: answers(rejecting, week) for week in weeks}
    unknown = {w: [r for r in rows[w].values() if r["class"] == "unknown"] for w in weeks}
    assert any(unknown.values())
    for row in (row for some in unknown.values() for row in some):
        assert float(row["confidence"]) > 0.5
        assert float(row["weight"]) == 0
    first, second = (state(rejecting, week) for week in weeks)
    kept = [12 - len(unknown[week]) for week in weeks]
    assert first.statistics.rows.count.sum() == pytest.approx(3 * kept[0])  # three views
    assert second.statistics.rows.count.sum() == pytest.approx(3 * sum(kept))
    assert second.rejection.embedding[-1] == 24  # the threshold is that of all images so far
    figures = json.loads(rejecting.results("streams", "camera-week2.json").read_text())
    assert figures["shares"]["unknown"] == pytest.approx(len(unknown["camera-week2"]) / 12, abs=1e-5)
    assert sum(figures["shares"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("first", ["all", ["dog"]])
def test_predict_says_of_a_streams_images_what_the_step_said(rejecting, first):
    change_step(rejecting, "camera-week1", classes=first)
    run(rejecting, "step camera-week1", "step camera-week2")
    cache = open_cache(rejecting.folder)
    rows = cache.rows("week2", "vit")
    found = cache.stream_model("camera").predict(rows, cache.rows("week2", "clip"))
    said = answers(rejecting, "camera-week2")
    assert found.rejected.tolist() == [said[path]["class"] == "unknown" for path in rows.paths]


def test_a_corrected_image_is_never_unknown(rejecting):
    name = next(path for path, row in answers(rejecting, "camera-week1").items() if row["class"] == "unknown")
    (rejecting.folder / "corrections.csv").write_text(f"path,class\n{name},bee\n")
    run(rejecting, "step camera-week1")
    row = answers(rejecting, "camera-week1")[name]
    assert (row["class"], row["corrected"]) == ("bee", "yes")
    assert float(row["weight"]) > 0
