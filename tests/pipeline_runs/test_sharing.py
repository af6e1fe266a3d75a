"""Features shared through a folder: a teammate who pulls everything first.

The recipe is that of docs/how-to/sharing.md.
"""

import json

import pytest

from sharing_story import COMPUTED_ANEW, Place, give, images_among, join

pytestmark = pytest.mark.slow


@pytest.mark.long  # the same story over S3 and SSH is part of `make test`
def test_a_teammate_without_images_or_weights(run_project, tmp_path):
    place = Place("A shared folder", {"/mnt/team/referee": str(tmp_path / "remote")})
    give(run_project, place)
    assert images_among(tmp_path / "remote") == []
    mate = join(run_project, tmp_path / "mate", place)
    assert not (mate.folder / "data").exists()
    assert not (mate.folder / "weights").exists()
    mate.run("dvc", "pull", "--allow-missing")
    assert mate.repro("--pull", "--allow-missing") == set()
    before = json.loads((mate.folder / "results/bases/left.json").read_text())
    mate.change_params(rff={"sigma": 1e-2})
    assert mate.repro("--pull", "--allow-missing") == COMPUTED_ANEW
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
