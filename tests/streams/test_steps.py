"""Test the steps of a stream: their outputs, and that the next step continues them after deletions, kills and so on."""

import json
import shutil
import sys

import pytest

from dask_cluster import RealCluster
from pipeline import paths
from shards import files_in
from stream_project import answers, change_step, prepare, run, state

STATE = "cache/streams/camera-week1.zarr"


def outputs(project):
    """Return the content of all states and results."""
    return files_in(project.folder / "cache/streams"), files_in(project.results("streams"))


def test_a_step_writes_labels_figures_and_a_state(stepped, capsys):
    run(stepped, "step camera-week2")
    message = capsys.readouterr().out.splitlines()[-1]
    assert "12 images" in message
    assert "since camera-week1" in message
    rows = answers(stepped, "camera-week2")
    confidence = [float(row["confidence"]) for row in rows.values()]
    assert confidence == sorted(confidence)
    assert {row["class"] for row in rows.values()} <= {"bee", "dog"}
    assert set(rows) == {f"data/week2/{letter}{i}.png" for letter in "abcd" for i in range(3)}
    figures = json.loads(stepped.results("streams", "camera-week2.json").read_text())
    assert figures["steps_before"] == ["camera-week1"]
    assert sum(figures["shares"].values()) == pytest.approx(1, abs=1e-5)
    assert 0 <= figures["drift"]["shares"] <= 1
    assert 0 <= figures["estimated_accuracy"] <= 1
    after = state(stepped, "camera-week2")
    assert after.steps_before == ("camera-week1",)
    assert after.statistics.totals.count.sum() == pytest.approx(2 * 12 * 3)  # two weeks, three views


def test_a_step_needs_no_files_of_earlier_steps_except_their_state(stepped):
    run(stepped, "step camera-week2")
    expected = outputs(stepped)
    for path in (
        *("data/week1", "data/left", "cache/embeddings/week1", "cache/manifests/week1", "cache/prompts/week1.zarr"),
        *("cache/streams/camera-week2.zarr", "cache/embeddings/left"),
    ):
        shutil.rmtree(stepped.folder / path)
    run(stepped, "step camera-week2")
    assert outputs(stepped) == expected


def test_corrected_images_have_confidence_1_and_the_weight_of_corrections(stepped):
    plain, before = state(stepped, "camera-week1"), answers(stepped, "camera-week1")
    doubtful = list(before)[:2]
    lines = [f"{path},bee,looked at\n" for path in doubtful]
    (stepped.folder / "fixed.csv").write_text("path,class,note\n" + "".join(lines))
    change_step(stepped, "camera-week1", corrections="fixed.csv", correction_weight=4.0)
    run(stepped, "step camera-week1")
    corrected = [row for row in answers(stepped, "camera-week1").values() if row["corrected"]]
    assert {row["path"] for row in corrected} == set(doubtful)
    assert all(row["class"] == "bee" and float(row["confidence"]) == 1 for row in corrected)
    assert all(float(row["weight"]) == 4 for row in corrected)
    after = state(stepped, "camera-week1")
    bee = after.classes.index("bee")
    assert after.statistics.totals.weight[bee] >= 2 * 4 * 3  # three views each
    assert after.statistics.totals.count.sum() == pytest.approx(plain.statistics.totals.count.sum())
    lines = [f"{path},{row['class']}\n" for path, row in before.items()]  # of all images
    (stepped.folder / "fixed.csv").write_text("path,class\n" + "".join(lines))
    run(stepped, "step camera-week1")
    assert state(stepped, "camera-week1").statistics.totals.weight.sum() == pytest.approx(4 * 12 * 3)


def test_an_unlabelled_domain_has_no_labels_even_if_its_source_has(weeks, capsys):
    week1 = weeks.read_params()["domains"]["week1"]
    weeks.change_params(domains={"week1": week1 | {"images": "data/week1/some.txt"}})
    (weeks.folder / "data/week1/some.txt").write_text("a0.png 0\nb1.png 0\nd2.png 0\n")  # labels are not read
    for domain in ("week1", "week2"):
        prepare(weeks, domain)
        manifest = paths.manifest(domain)
        assert (manifest / "labels/labels.csv").read_text() == "path,class\n"
        assert len((manifest / "tasks/tasks.csv").read_text().splitlines()) == 1
    run(weeks, "step camera-week1", "probe week1")
    assert set(answers(weeks, "camera-week1")) == {f"data/week1/{name}.png" for name in ("a0", "b1", "d2")}
    assert "no labels" in capsys.readouterr().out.splitlines()[-1]


def test_a_private_step_uses_row_numbers_instead_of_paths(weeks):
    """No output of DVC contains a path, and the step also runs without the private files."""
    weeks.change_params(data={"private": ["week1"]})
    prepare(weeks, "week1")
    run(weeks, "step camera-week1")
    assert set(answers(weeks, "camera-week1")) == {f"row {row}" for row in range(12)}
    (weeks.folder / "corrections.csv").write_text("path,class\nrow 3,bee\n")
    run(weeks, "step camera-week1")
    assert answers(weeks, "camera-week1")["row 3"]["class"] == "bee"
    expected = outputs(weeks)
    assert not any(b".png" in content for folder in expected for content in folder.values())
    shutil.rmtree(weeks.folder / "private")
    run(weeks, "step camera-week1")
    assert outputs(weeks) == expected


@pytest.mark.slow
def test_a_step_on_a_cluster_gives_the_same_bytes(stepped, tmp_path):
    expected = outputs(stepped)
    shutil.rmtree(stepped.folder / STATE)
    with RealCluster(tmp_path) as cluster:
        cluster.add_worker()
        stepped.stage("step", "camera-week1", DASK_SCHEDULER_ADDRESS=cluster.address)
    assert outputs(stepped) == expected


KILL = """
import os, sys
from pathlib import Path
count, replace = 0, Path.replace
def killed(self, target):
    global count
    count += 1
    if count == int(sys.argv[1]):
        os._exit(9)
    return replace(self, target)
Path.replace = killed
from pipeline.stage import main
sys.exit(main(["step", "camera-week2"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("rename", [1, 2, 3])
def test_a_step_killed_while_renaming_an_output_can_run_again(stepped, rename):
    run(stepped, "step camera-week2")
    expected = outputs(stepped)
    done = stepped.run(sys.executable, "-c", KILL, str(rename), ok=False)
    assert done.returncode == 9
    assert files_in(stepped.folder / STATE)  # the state of the step before is still there
    run(stepped, "step camera-week2")
    assert outputs(stepped) == expected
