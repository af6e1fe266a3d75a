"""Features shared through a DVC remote: a teammate with no images and no weights changes sigma and gets a result."""

import json

import pytest

from small_project import SmallProject

pytestmark = pytest.mark.slow

COMPUTED_ANEW = {"basis@left", "source@left", "tables", "report"} | {
    f"{stage}@left-right"
    for stage in ("pseudo_label", "refine", "adapt", "evaluate", "compare", "sensitivity")
}


def test_a_teammate_without_images_or_weights(run_project, tmp_path):
    run_project.run("dvc", "remote", "add", "--default", "team", str(tmp_path / "remote"))
    run_project.run("git", "commit", "--quiet", "-am", "where our features are")
    run_project.run("dvc", "push")
    run_project.run("git", "clone", "--quiet", str(run_project.folder), str(tmp_path / "mate"))
    mate = SmallProject(tmp_path / "mate")
    mate.make_kept_folders()
    assert not (mate.folder / "data").exists()
    assert not (mate.folder / "weights").exists()
    mate.run("dvc", "pull", "--allow-missing")
    assert mate.repro("--pull", "--allow-missing") == set()
    before = json.loads((mate.folder / "results/bases/left.json").read_text())
    mate.change_params(rff={"sigma": 1e-2})
    ran = mate.repro("--pull", "--allow-missing")
    assert {"basis@left", "compare@left-right", "report"} <= ran <= COMPUTED_ANEW
    after = json.loads((mate.folder / "results/bases/left.json").read_text())
    assert after["gamma"] == 100 * before["gamma"]
    assert "left-right" in mate.run("referee", "summary").stdout
    # the report is made here, without pictures; the owner's, which has some, was never sent
    assert "No pictures" in (mate.folder / "results/report.html").read_text(encoding="utf-8")
    owners = (run_project.folder / "results/report.html").read_bytes()
    assert b"data:image/" in owners
    assert not [
        file
        for file in (tmp_path / "remote").rglob("*")
        if file.is_file() and (b"data:image/" in (sent := file.read_bytes()) or sent == owners)
    ]
    assert not (mate.folder / "data").exists()
