"""Test a stream that rejects images: they are labelled `unknown`, enter no statistics, and the next step continues."""

import itertools
import json

import pytest

from pipeline import open_cache
from stream_project import answers, change_step, run, state


@pytest.fixture
def rejecting(weeks):
    """Return a project with a rejecting method after two weeks, of which the second has two candidate classes."""
    weeks.change_params(method={"variant": "rejecting"})
    run(weeks, "source left", "step camera-week1", "step camera-week2")
    return weeks


def test_rejected_images_are_unknown_and_enter_no_statistics(rejecting, capsys):
    weeks = ("camera-week1", "camera-week2")
    rows = {week: answers(rejecting, week) for week in weeks}
    unknown = {w: [r for r in rows[w].values() if r["class"] == "unknown"] for w in weeks}
    assert any(unknown.values())
    for row in itertools.chain(*unknown.values()):
        assert float(row["confidence"]) > 0.5
        assert float(row["weight"]) == 0
    first, second = (state(rejecting, week) for week in weeks)
    kept = [12 - len(unknown[week]) for week in weeks]
    assert first.statistics.totals.count.sum() == pytest.approx(3 * kept[0])  # three views
    assert second.statistics.totals.count.sum() == pytest.approx(3 * sum(kept))
    assert second.rejection.embedding[-1] == 24  # the threshold uses all images so far
    figures = json.loads(rejecting.results("streams", "camera-week2.json").read_text())
    assert figures["shares"]["unknown"] == pytest.approx(len(unknown["camera-week2"]) / 12, abs=1e-5)
    assert sum(figures["shares"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("first", ["all", ["dog"]])
def test_predict_rejects_the_same_images_as_the_step(rejecting, first):
    change_step(rejecting, "camera-week1", classes=first)
    run(rejecting, "step camera-week1", "step camera-week2")
    cache = open_cache(rejecting.folder)
    rows = cache.rows("week2", "vit")
    prediction = cache.stream_model("camera").predict(rows, cache.rows("week2", "clip"))
    table = answers(rejecting, "camera-week2")
    assert prediction.rejected.tolist() == [table[path]["class"] == "unknown" for path in rows.paths]


def test_a_corrected_image_is_never_unknown(rejecting):
    name = next(path for path, row in answers(rejecting, "camera-week1").items() if row["class"] == "unknown")
    (rejecting.folder / "corrections.csv").write_text(f"path,class\n{name},bee\n")
    run(rejecting, "step camera-week1")
    row = answers(rejecting, "camera-week1")[name]
    assert (row["class"], row["corrected"]) == ("bee", "yes")
    assert float(row["weight"]) > 0
