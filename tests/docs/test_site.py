"""The site and its notebooks: built without a warning, from notebooks that run and are small.

`make docs`: a broken link is a warning; the pages ask the network for nothing. Notebooks are executed on a small cache.
"""

import json
import re
import shutil
import subprocess
import sys

import pytest

from small_project import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
KILOBYTES = 200

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@every_notebook
@pytest.mark.long
def test_a_notebook_runs(path, digits, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    project = tmp_path / "project"
    shutil.copytree(digits, project, symlinks=True)
    (project / "docs/notebooks").mkdir(parents=True)
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(project / "docs/notebooks")}}
    NotebookClient(notebook, timeout=300, resources=where).execute()  # an error in a cell is raised


@every_notebook
def test_a_notebook_in_git_has_the_outputs_of_one_whole_run_and_is_small(path):
    assert path.stat().st_size < KILOBYTES * 1000
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not [out for c in cells for out in c["outputs"] if out["output_type"] == "error"]
    assert sum(bool(cell["outputs"]) for cell in cells) >= len(cells) - 1


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
