"""The report as DVC makes it: with pictures, without, again when it is gone; the commands of its page of the docs."""

import pytest

from sharing_story import commands_of
from small_project import ROOT

pytestmark = pytest.mark.slow

COMMANDS = commands_of(ROOT / "docs/how-to/report.md")


def test_the_page_has_pictures_where_there_are_images_and_is_made_again_when_it_is_gone(run_project):
    page = run_project.results("report.html")
    page.unlink()
    assert run_project.repro() <= {"report"}
    assert page.is_file()
    (make, again) = COMMANDS
    run_project.run(*again.split())
    text = page.read_text(encoding="utf-8")
    assert "data:image/" in text
    assert "cache/embeddings/right/vit.zarr</th>" in text  # by its hash in dvc.lock
    assert run_project.run("git", "rev-parse", "HEAD").stdout.strip() in text
    assert str(run_project.folder) not in text
    assert "Running stage" not in run_project.run(*make.split()).stdout
    (run_project.folder / "data").rename(run_project.folder / "data_moved")
    run_project.run(*again.split())
    text = page.read_text(encoding="utf-8")
    assert "No pictures" in text
    assert "data:image/" not in text
