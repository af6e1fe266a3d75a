"""Steps of private images, of listed images, of other backbones, and on a cluster."""

import shutil
import sys

import pytest

from dask_cluster import RealCluster
from shards import files_in
from stream_project import answers, prepare, refusal, run

STEP, STATE = "camera-week1", "cache/streams/camera-week1.zarr"


def test_a_private_step_names_rows_and_takes_corrections_by_them(weeks):
    """Nothing that DVC gets holds a path, and whoever lacks the private files runs the step as well."""
    weeks.change_params(data={"private": ["week1"]})
    prepare(weeks, "week1")
    run(weeks, "step camera-week1")
    assert set(answers(weeks, STEP)) == {f"row {row}" for row in range(12)}
    (weeks.folder / "corrections.csv").write_text("path,class\nrow 3,bee\n")
    run(weeks, "step camera-week1")
    assert answers(weeks, STEP)["row 3"]["class"] == "bee"
    results = [weeks.results("streams"), weeks.folder / STATE]
    written = [files_in(folder) for folder in results]
    assert not any(b".png" in content for folder in written for content in folder.values())
    shutil.rmtree(weeks.folder / "private")
    run(weeks, "step camera-week1")
    assert [files_in(folder) for folder in results] == written


def test_an_unlabelled_domain_may_come_from_a_list(weeks):
    week1 = weeks.read_params()["domains"]["week1"]
    weeks.change_params(domains={"week1": week1 | {"images": "data/week1/some.txt"}})
    (weeks.folder / "data/week1/some.txt").write_text("a0.png 0\nb1.png 0\nd2.png 0\n")  # labels are not read
    prepare(weeks, "week1")
    run(weeks, "step camera-week1")
    assert set(answers(weeks, STEP)) == {f"data/week1/{name}.png" for name in ("a0", "b1", "d2")}
    manifest = weeks.folder / "cache/manifests/week1"
    assert (manifest / "labels/labels.csv").read_text() == "path,class\n"


def test_rows_of_another_backbone_are_refused_naming_both_sides(stepped, capsys):
    vit = stepped.read_params()["models"]["vit"]
    stepped.change_params(models={"vit": vit | {"precision": "bfloat16"}})
    run(stepped, "embed week2 vit")
    line = refusal(stepped, capsys, "step camera-week2")
    assert "cache/embeddings/week2/vit.zarr" in line
    assert "cache/source/left.zarr" in line
    assert "bfloat16" in line


@pytest.mark.slow
def test_a_step_on_a_cluster_gives_the_same_bytes(stepped, tmp_path):
    here = files_in(stepped.folder / STATE), answers(stepped, STEP)
    shutil.rmtree(stepped.folder / STATE)
    with RealCluster(tmp_path) as cluster:
        cluster.add_worker()
        command = (sys.executable, "-m", "pipeline.stages", "step", "camera-week1")
        stepped.run(*command, DASK_SCHEDULER_ADDRESS=cluster.address)
    assert (files_in(stepped.folder / STATE), answers(stepped, STEP)) == here
