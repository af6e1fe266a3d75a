"""Run the example of docs/how-to/add-a-method.md through the registry."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison import methods
from pipeline.comparison.referee_variants import first_labels
from pipeline.comparison.registry import compared_method
from pipeline.errors import ParamsError
from reference import nearest_class_mean as oracle

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-method.md"
NAME = "nearest-neighbour"
FILE = "nearest_neighbour.py"


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return the path at which a reader saves the example, in a folder that the registry searches."""
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    yield tmp_path / FILE
    sys.modules.pop(f"{methods.__name__}.{Path(FILE).stem}", None)


@pytest.fixture
def example():
    text = PAGE.read_text(encoding="utf-8")
    assert f"pipeline/comparison/methods/{FILE}" in text
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return code


def nearest(test, tasks):
    """Return the class of the nearest unit row, which has the largest cosine."""
    rows, labels = (np.concatenate(parts) for parts in list(zip(*tasks, strict=True))[1:3])
    return labels[oracle.predict(test, [oracle.unit(row) for row in rows])]


def test_the_example_runs_through_the_registry(file, example):
    with pytest.raises(ParamsError, match=NAME):
        compared_method(NAME)
    file.write_text(example, encoding="utf-8")
    domains = ShiftedDomains(0, noise=2.0)
    seed = domains.build()
    source, target = domains.source_rows(), domains.target_rows(first_labels(seed))
    for name, tasks in ((NAME, source), (f"{NAME}-pseudo", target)):
        expected = [nearest(domains.test_x, tasks[: t + 1]) for t in range(3)]
        np.testing.assert_array_equal(compared_method(name).run(seed), expected)
    nothing_kept = domains.with_labels(domains.y, kept=np.zeros(84, dtype=bool))
    assert all(set(predicted) == {0} for predicted in compared_method(f"{NAME}-pseudo").run(nothing_kept))
    assert compared_method(NAME).source_samples
    assert not compared_method(f"{NAME}-pseudo").source_samples


def test_a_file_that_does_not_export_its_name_is_named_in_the_error(file, example):
    file.write_text(example.replace("METHODS =", "METHOD ="), encoding="utf-8")
    with pytest.raises(ParamsError, match=rf"no '{NAME}' in METHODS of .*methods/{FILE}"):
        compared_method(NAME)
