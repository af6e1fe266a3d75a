"""The stage `report`: a page without images, the same bytes every time, and what it says of the repository.

What a missing or malformed result says is in tests/report/test_result_files.py.
"""

import json

import pytest

from pipeline import paths
from pipeline.dvc_lock import LOCK
from pipeline.report.page import provenance
from pipeline.stage import main
from report_content import problem, write_results

PAGE = paths.report("toy")


@pytest.fixture
def project(params_alone, monkeypatch):
    """A project whose stages have run, without images; the plotting library left out."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(params_alone.folder.parent))
    monkeypatch.setattr("pipeline.report.page.page.drawing_library", lambda: "let vegaEmbed;")
    write_results(problem("left-right", ["ant", "bee", "cat", "dog"], 70, swept=True))
    return params_alone


def page():
    assert main(["report"]) == 0
    return PAGE.read_text(encoding="utf-8")


def test_the_page_has_figures_and_params_and_the_same_bytes_again(project):
    first = page()
    assert "82.0 ± 0.5 %" in first  # A_T
    assert "sigma: 0.0001" in first
    assert "batch_size" not in first  # how the work is done is no result
    assert str(project.folder) not in first
    assert "data/right" in first  # where to put the images, which are not there
    assert 'id="album">{}</script>' in first
    assert ">data/1.png</th>" in first  # mistakes are listed by path
    assert page() == first


def test_a_suite_without_problems_or_sweeps_has_a_page(project):
    params = project.read_params()
    project.write_params(params | {"swept": {}})
    assert "<code>swept</code>" in page()
    project.write_params(params | {"problems": {}, "sources": {}, "swept": {}})
    assert "no problems" in page()


def test_the_revision_names_what_is_not_committed(project):
    assert "not known" in provenance.revision()
    project.git_init()
    project.run("git", "add", "params.yaml")
    project.run("git", "commit", "--quiet", "-m", "params")
    head = project.run("git", "rev-parse", "HEAD").stdout.strip()
    project.change_params(rff={"D": 77})
    (project.folder / "dvc.yaml").write_text("stages: {}\n")
    revision = provenance.revision()
    assert revision.startswith(head)
    assert "dvc.yaml" in revision
    assert "params.yaml" in revision


def test_hashes_of_stores_are_read_from_the_lock_file_where_it_can_be_read(project):
    lock = {
        "stages": {
            "embed@a": {"outs": [{"path": "cache/e.zarr", "md5": "12.dir", "size": 5}]},
            "code": {"outs": [{"path": "cache/code/x.json", "md5": "1"}]},
            "report": {"outs": [{"path": "results/report.html", "md5": "2"}]},
            "none": {},
        }
    }
    LOCK.write_text(json.dumps(lock))  # JSON is YAML
    assert provenance.store_hashes() == [("cache/e.zarr", "embed@a", "12.dir", 5)]
    for broken in ("stages: [", "- 1", "stages: 3", ""):
        LOCK.write_text(broken)
        assert provenance.store_hashes() == []
