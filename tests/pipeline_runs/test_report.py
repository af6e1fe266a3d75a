"""The report as DVC makes it: with pictures, without, again when it is gone; the commands of its page of the docs."""

import re

import pytest

from small_project import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/how-to/report.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]


def test_the_report_of_a_run(run_project):
    place = run_project.folder / "results" / "report.html"
    made = place.read_text(encoding="utf-8")
    assert "left → right" in made
    assert "data:image/" in made
    assert "cache/embeddings/right/vit.zarr</th>" in made  # by its hash in dvc.lock
    assert str(run_project.folder) not in made
    (make, again) = COMMANDS
    place.unlink()
    assert run_project.repro() == {"report"}
    assert run_project.run(*make.split()).stdout.count("Running stage") == 0
    (run_project.folder / "data").rename(run_project.folder / "elsewhere")
    run_project.run(*again.split())
    made = place.read_text(encoding="utf-8")
    assert "No pictures: the images of right are not on this machine" in made
    assert "data:image/" not in made
    head = run_project.run("git", "rev-parse", "HEAD").stdout.strip()
    assert f"<code>{head}</code>" in made  # committed since the run, and nothing changed
