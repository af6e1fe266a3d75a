"""Run docs/how-to/streams.md command by command with DVC: no earlier stage runs, and earlier images may be deleted."""

import json
import shutil

import pytest

from documented_commands import read_page
from shards import files_in
from small_project import ROOT, SmallProject, draw_domain, draw_image, feature_stages, small_params, stages_run
from stream_project import answers

pytestmark = pytest.mark.slow

PAGE = "docs/how-to/streams.md"
CLASSES = ("chair", "lamp", "laptop", "mug")


@pytest.fixture
def reader(tmp_path):
    """Return a reader's project: labelled photos, two folders of camera images, and a suite without problems."""
    project = SmallProject(tmp_path / "project")
    project.folder.mkdir()
    project.create(dvc=True)
    shutil.rmtree(project.folder / "data")
    draw_domain(project.folder / "data/photos", CLASSES, 6, seed=1)
    for week in (1, 2):
        for number in range(8):
            draw_image(project.folder / f"data/camera/week{week}/IMG_{number}.png", 50 * week + number)
    draw_image(project.folder / "photo.png", 99)
    params = small_params()
    domain = {**params["domains"]["left"], "dataset": "photos", "images": "data/photos"}
    params |= {"suite": "stream", "datasets": {"photos": {"classes_per_task": 1000, "class_names": {}}}}
    params |= {"domains": {"photos": domain}, "sources": {"photos": {}}, "problems": {}, "swept": {}}
    project.write_params(params)
    (project.folder / "suites").mkdir()  # suites/stream.yaml with models small enough for a test
    shutil.copy(project.folder / "suite.yaml", project.folder / "suites/stream.yaml")
    return project


@pytest.mark.long
def test_the_commands_of_the_page_work(reader):
    (block,) = (block for block in read_page(ROOT / PAGE).blocks if block.is_command)
    outputs = {}
    for line in block.lines:
        done = reader.run("bash", "-c", line)
        outputs.setdefault(line, []).append(done.stdout)
    first, corrected = map(stages_run, outputs["dvc repro step@camera-week1"])
    assert "embed@camera_week1-vit" in first
    assert corrected == {"step@camera-week1"}
    features = {f"{stage}@{'-'.join(keys)}" for stage, *keys in feature_stages("camera_week2") if stage != "model"}
    assert stages_run(*outputs["dvc repro report"]) == {"code", *features, "step@camera-week2", "report"}
    rows = answers(reader, "camera-week1")
    assert rows["data/camera/week1/IMG_3.png"]["class"] == "mug"
    assert rows["data/camera/week1/IMG_3.png"]["corrected"] == "yes"
    assert len(rows) == 8
    assert "4 classes" in outputs["referee predict --stream camera photo.png"][0]
    page = reader.results("report.html").read_text()
    assert "camera, up to week2" in page
    assert page.count('<img data-picture="') == 8
    # earlier caches may be deleted, because no path of the graph leads to them (test_steps.py compares the outputs)
    for path in ("cache/embeddings/camera_week1", "cache/manifests/camera_week1"):
        shutil.rmtree(reader.folder / path)
    graph = reader.run("dvc", "dag", "step@camera-week2", "--mermaid").stdout.splitlines()
    assert not [line for line in graph if "week1" in line and "past@" not in line]
    # only `code`, which writes the settings of all domains, may run again after `forget` removed a domain
    assert reader.repro("step@camera-week2") <= {"code"}
    assert reader.repro("report") == {"report"}  # which still shows the figures of the past step


@pytest.mark.long
def test_a_teammate_without_images_continues_the_stream(reader, tmp_path):
    """The teammate pulls the state and has only the images of the next step."""
    reader.run("referee", "stream", "add", "camera", "data/camera/week1")
    reader.repro("step@camera-week1")
    reader.run("referee", "stream", "forget", "camera-week1")
    shared = ("past@camera-week1", "source@photos", "model@vit", "model@clip", "code")
    reader.run("dvc", "remote", "add", "--default", "shared", str(tmp_path / "remote"))
    reader.run("dvc", "push", *shared)
    reader.commit("week 1 is past")
    mate = reader.clone(tmp_path / "mate")
    shutil.copytree(reader.folder / "weights", mate.folder / "weights", dirs_exist_ok=True)
    shutil.copytree(reader.folder / "data/camera/week2", mate.folder / "data/camera/week2")
    mate.run("dvc", "pull", *shared)
    stages = {}
    for project in (mate, reader):
        project.run("referee", "stream", "add", "camera", "data/camera/week2")
        stages[project] = project.repro("--allow-missing", "step@camera-week2")
    assert not any("photos" in stage or "week1" in stage for stage in stages[mate])
    state = "cache/streams/camera-week2.zarr"
    assert files_in(mate.folder / state) == files_in(reader.folder / state) != {}
    figures = json.loads(mate.results("streams", "camera-week2.json").read_text())
    assert figures["steps_before"] == ["camera-week1"]
