"""Test the stage `report` without images: the same bytes every time, and facts about the repository.

Messages for missing or malformed results are tested in tests/report/test_result_files.py.
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
def project(params_only, monkeypatch):
    """Return a project with results but no images; the plotting library is replaced by a stub."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(params_only.folder.parent))
    monkeypatch.setattr("pipeline.report.page.page.drawing_library", lambda: "let vegaEmbed;")
    write_results(problem("left-right", ["ant", "bee", "cat", "dog"], 70, swept=True))
    return params_only


def page():
    assert main(["report"]) == 0
    return PAGE.read_text(encoding="utf-8")


def test_the_page_has_figures_and_params_and_is_the_same_when_run_again(project):
    html = page()
    assert "82.0 ± 0.5 %" in html  # A_T
    assert "sigma: 0.0001" in html
    assert "batch_size" not in html  # `runtime` is not shown
    assert str(project.folder) not in html
    assert "data/right" in html  # where to put the missing images
    assert 'id="album">{}</script>' in html
    assert ">data/1.png</th>" in html  # wrongly classified images are listed by path
    assert page() == html
    paths.evaluation("toy", "left-right").unlink()
    assert main(["report"]) == 2
    assert PAGE.read_text(encoding="utf-8") == html  # the former page stays


def test_a_suite_without_problems_or_sweeps_still_has_a_page(project):
    params = project.read_params()
    project.write_params(params | {"swept": {}})
    assert "<code>swept</code>" in page()
    project.write_params(params | {"problems": {}, "sources": {}, "swept": {}})
    assert "no problems" in page()


def test_the_revision_names_uncommitted_files(project):
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


def test_hashes_of_stores_are_read_from_the_lock_file_if_it_is_readable(project):
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
