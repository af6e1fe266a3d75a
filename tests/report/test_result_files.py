"""Results files that are missing or malformed: one line that names the file, what is wrong, and the stage to run."""

import json

import pytest

from pipeline import paths
from pipeline.errors import StoreError
from pipeline.report.compared_methods import read_comparison, read_sweeps
from pipeline.report.page.problem_results import read_problem
from pipeline.report.result_file import read_table
from report_content import problem, write_results

ENTRY = {"title": "EWC", "group": "peer", "source_samples": True, "A_T": 50, "A_T_sd": 1.5, "A_T_per_seed": [49, 51.0]}


def compared(entry):
    return {"made_with": {}, "test_images": 30, "methods": {"ewc": entry}}


def refused(path, stage, read):
    """Return what is wrong with a file, from the one line that names it and the stage to run again."""
    with pytest.raises(StoreError) as caught:
        read()
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith(f"; run dvc repro --force {stage}")
    assert "\n" not in message
    return message


def test_results_are_read_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = problem("left-right", ["NA", "1", "a,b"], 70, swept=True)
    write_results(written)
    read = read_problem("toy", "left-right", "left", "right", swept=True)
    assert read.metrics == written.metrics
    assert read.methods == written.methods
    assert read.sweeps == written.sweeps
    assert read.class_names == ["NA", "1", "a,b"]
    assert read.tables.keys() == written.tables.keys()
    for name, table in written.tables.items():
        assert read.tables[name].to_dict("records") == table.to_dict("records")


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(StoreError, match=r"map.csv: no such file; run dvc repro evaluate@a-b"):
        read_table(tmp_path / "map.csv", {"x": float}, "evaluate@a-b")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "its columns do not begin with task,best"),
        ("task,worst\n1,2\n", "its columns do not begin with task,best"),
        ("task,best\n1\n", "2 values"),
        ("task,best\n1,2\n2,3,4\n", "2 values"),
        ("task,best\n1,2\n2,x\n", "'x'"),
        ("task,best\n1,1\n2,inf\n", "finite"),
    ],
)
def test_a_malformed_table(tmp_path, content, what):
    path, stage = tmp_path / "t.csv", "evaluate@a-b"
    path.write_text(content)
    columns = {"task": int, "best": float}
    assert what in refused(path, stage, lambda: read_table(path, columns, stage))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ("{}", "made_with"),
        ('{"made_with": {}, "test_images": 3, "methods": {}}', "no methods"),
        ({"title": None}, "ewc.title"),
        ({"group": "pear"}, "ewc.group"),
        ({"source_samples": 1}, "ewc.source_samples"),
        ({"A_T": "96"}, "ewc.A_T"),
        ({"A_T": float("nan")}, "ewc.A_T"),
        ({"A_T": 100.1}, "ewc.A_T"),
        ({"A_T_sd": -1}, "ewc.A_T_sd"),
        ({"A_T_per_seed": []}, "A_T_per_seed"),
        ({"A_T_per_seed": [1, "2"]}, "ewc.A_T_per_seed.1"),
        ({"failed": 3}, "ewc.failed"),
    ],
)
def test_a_malformed_comparison(tmp_path, change, key):
    path, stage = tmp_path / "c.json", "compare@a-b"
    text = change if isinstance(change, str) else json.dumps(compared(ENTRY | change))
    path.write_text(text)
    assert key in refused(path, stage, lambda: read_comparison(path, stage))


def test_a_method_that_failed_has_its_reason(tmp_path):
    path = tmp_path / "c.json"
    failed = {"title": "EWC", "group": "peer", "source_samples": True, "failed": "too\nfew"}
    path.write_text(json.dumps(compared(failed)))
    assert read_comparison(path, "compare@a-b").methods["ewc"].failed == "too few"


@pytest.mark.parametrize("rows", ["", "o,50,x,1", "50,1", "o,50,1,1\no,50,2,1", "o,0,1,1", "o,50,101,1"])
def test_a_malformed_sweep(tmp_path, rows):
    path, stage = tmp_path / "D.csv", "sensitivity@a-b"
    path.write_text(f"of,D,A_T,sd\n{rows}\n")
    refused(path, stage, lambda: read_sweeps(tmp_path, stage))


def test_malformed_metrics(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_results(problem("left-right", ["ant"], 70))
    figures = paths.evaluation("toy", "left-right")
    figures.write_text('{"A_T": "high"}')
    read = lambda: read_problem("toy", "left-right", "left", "right", swept=False)  # noqa: E731
    assert "A_T" in refused(figures, "evaluate@left-right", read)
