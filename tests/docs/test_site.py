"""`make docs`: the site is built without a warning (a broken link is one) and asks the network for nothing."""

import re
import subprocess
import sys

import pytest

from small_project import ROOT


@pytest.mark.long
def test_the_site_has_everything_and_needs_no_network(tmp_path):
    assert "sphinx-build --quiet --fail-on-warning" in (ROOT / "Makefile").read_text()
    build = (sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going")
    done = subprocess.run(
        [*build, "-c", str(ROOT / "docs/site"), str(ROOT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("*.html")}
    written = [p for p in (ROOT / "docs").rglob("*") if p.suffix in (".md", ".ipynb")]
    assert {p.relative_to(ROOT).with_suffix(".html").as_posix() for p in written} <= pages
    assert "KernelLDAClassifier.partial_fit" in (tmp_path / "docs/site/api.html").read_text()
    assert "kernellda" in (tmp_path / "searchindex.js").read_text().lower()
    for page in pages:
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//', text), page
