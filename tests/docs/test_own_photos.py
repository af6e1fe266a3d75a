"""README.md, "Your own photos": its commands with tiny images and the shipped models instead of the hub's."""

import sys

import pytest
from ruamel.yaml import YAML

from documented_commands import read_page
from small_project import ROOT, SmallProject, draw_domain, draw_image

(BLOCK,) = [
    block for block in read_page(ROOT / "README.md").blocks if block.argument == "tests/docs/test_own_photos.py"
]
COPY, FOLDERS, CHOOSE, *RUN = BLOCK.lines


@pytest.fixture
def project(shipped, tmp_path):
    """Return a clone with images, in which the suite is written, edited and chosen as README.md says."""
    project = SmallProject(shipped)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/digits").symlink_to(ROOT / "weights/digits")
    for seed, domain in enumerate(("photos", "drawings")):
        draw_domain(tmp_path / "data/mine" / domain, ("apple", "bread", "cheese"), 6, seed)
    draw_image(tmp_path / "data/new/1.jpg", 7)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    project.add_graph()
    for command in (COPY, FOLDERS):
        project.run("bash", "-c", command)
    file, yaml = tmp_path / "suites/mine.yaml", YAML()
    suite = yaml.load(file.read_text())
    suite["suite"] = "mine"
    suite["models"] = yaml.load((ROOT / "suite.yaml").read_text())["models"]
    yaml.dump(suite, file)
    project.run("bash", "-c", CHOOSE)
    return project


def test_the_suite_can_be_chosen_and_doctor_misses_nothing(project):
    assert project.read_params()["suite"] == "mine"


@pytest.mark.long
def test_the_pipeline_runs_and_predicts(project):
    for command in RUN:
        done = project.run("bash", "-c", command)
    assert "data/new/1.jpg" in done.stdout
    assert project.results("report.html").is_file()
