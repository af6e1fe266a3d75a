"""The example of docs/how-to-add-a-method.md, taken from the page and run through the registry."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from comparison.shifted_problem import ShiftedProblem
from pipeline.comparison import methods
from pipeline.comparison.referee_variants import first_labels
from pipeline.comparison.registry import compared_method
from pipeline.errors import ParamsError

PAGE = Path(__file__).parents[2] / "docs" / "how-to-add-a-method.md"
FILE = re.compile(r"`pipeline/comparison/methods/(\w+)\.py`; `tests")


def example() -> tuple[str, str]:
    """Return the name of the example's file, without .py, and its text."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    return FILE.search(text)[1], blocks[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Put a copy of the methods' folder in the place of the real one, as if a reader's checkout."""
    copy = tmp_path / "methods"
    shutil.copytree(Path(methods.__path__[0]), copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(methods, "__path__", [str(copy)])
    before = {name for name in sys.modules if name.startswith(f"{methods.__name__}.")}
    yield copy
    for name in [name for name in sys.modules if name.startswith(f"{methods.__name__}.")]:
        if name not in before:  # leave nothing of the copy for other tests
            module = sys.modules.pop(name)
            vars(methods).pop(name.rpartition(".")[2], None)
            assert str(tmp_path) in str(module.__file__)


def nearest(test, rows, labels):
    """Return the class of the row of the greatest cosine, pair by pair."""
    answers = []
    for x in test:
        cosines = [x @ row / np.sqrt((x @ x) * (row @ row)) for row in rows]
        answers.append(labels[int(np.argmax(cosines))])
    return answers


def test_the_example_runs_through_the_registry(folder):
    name, text = example()
    method = name.replace("_", "-")
    with pytest.raises(ParamsError, match=f"no method '{method}'"):
        compared_method(method)
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    made = ShiftedProblem(0, noise=2.0)
    problem = made.build()
    of_source = list(made.source_rows())
    of_target = list(made.target_rows(first_labels(problem)))
    for form, tasks in ((method, of_source), (f"{method}-pseudo", of_target)):
        predictions = compared_method(form).run(problem)
        assert len(predictions) == 3
        for t, predicted in enumerate(predictions):
            rows = np.vstack([rows for _, rows, _, _ in tasks[: t + 1]])
            labels = np.concatenate([labels for _, _, labels, _ in tasks[: t + 1]])
            np.testing.assert_array_equal(predicted, nearest(made.test_x, rows, labels))
    assert compared_method(method).source_samples
    assert not compared_method(f"{method}-pseudo").source_samples


def test_the_example_survives_a_target_without_kept_rows(folder):
    name, text = example()
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    made = ShiftedProblem(0)
    problem = made.given(made.build(), made.y, kept=np.zeros(84, dtype=bool))
    for predicted in compared_method(f"{name.replace('_', '-')}-pseudo").run(problem):
        assert set(predicted) == {0}


def test_a_file_that_forgets_its_name_is_told(folder):
    name, text = example()
    (folder / f"{name}.py").write_text(text.replace("METHODS =", "METHOD ="), encoding="utf-8")
    with pytest.raises(
        ParamsError, match=rf"methods/{name}\.py has no 'nearest-neighbour' in METHODS$"
    ):
        compared_method("nearest-neighbour")


def test_the_page_names_what_exists():
    text = PAGE.read_text(encoding="utf-8")
    root, (name, _) = PAGE.parents[1], example()
    for path in re.findall(r"`((?:pipeline|tests)/[\w/.]+)`", text):
        assert (root / path).exists() or path.endswith(f"/{name}.py"), path
