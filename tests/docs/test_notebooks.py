"""The notebooks of docs/: executed on a small cache, and as they are in git small enough to read there."""

import json
import shutil

import pytest

import digits_project
from small_project import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
KILOBYTES = 200

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@every_notebook
@pytest.mark.long
def test_a_notebook_runs(path, tmp_path_factory, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    project = tmp_path / "project"
    digits = digits_project.shared(tmp_path_factory.getbasetemp())
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
