"""Missing or malformed result files: a one-line error names the file, what is wrong, and the stage to run."""

import json

import pytest

from pipeline import paths
from pipeline.config.suite import ProblemEntry
from pipeline.errors import StoreError
from pipeline.report.page.content import read_problem
from pipeline.report.results import read_comparison, read_evaluation, read_result_table, read_sweeps
from report_content import problem, write_results

PROBLEM = ProblemEntry(source="left", target="right")
NAME = "left-right"
ENTRY = {"title": "EWC", "group": "peer", "source_samples": True, "A_T": 50, "A_T_sd": 1.5, "A_T_per_seed": [49, 51.0]}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write the results of a problem below the current folder, a temporary one."""
    monkeypatch.chdir(tmp_path)
    results = problem(NAME, ["NA", "1", "a,b"], 70, swept=True)
    write_results(results)
    return results


def compared(entry):
    return json.dumps({"made_with": {}, "test_images": 30, "methods": {"ewc": entry}})


def refused(path, content, stage, read, *arguments):
    """Return the one-line error for a file with this content, which must name the file and the stage to run again."""
    path.write_text(content)
    with pytest.raises(StoreError) as caught:
        read(*arguments)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith(f"; run dvc repro --force {stage}")
    assert "\n" not in message
    return message


def test_results_are_read_as_they_were_written(written):
    read = read_problem("toy", NAME, PROBLEM, read_comparison("toy", NAME), swept=True)
    assert (read.metrics, read.comparison) == (written.metrics, written.comparison)
    for actual, expected in ((read.tables, written.tables), (read.sweeps.accuracy, written.sweeps.accuracy)):
        assert actual.keys() == expected.keys()
        assert all(actual[name].to_dict("records") == expected[name].to_dict("records") for name in actual)


@pytest.mark.parametrize(
    ("missing", "stage"),
    [
        (paths.evaluation("toy", NAME), "evaluate"),
        (paths.comparison("toy", NAME), "compare"),
        (paths.problem_tables("toy", NAME) / "map.csv", "evaluate"),
        (paths.sensitivity("toy", NAME) / "D.csv", "sensitivity_D"),
        (paths.selection("toy", NAME) / "choices.csv", "select"),
    ],
)
def test_a_missing_file_is_named_with_its_stage(written, missing, stage):
    missing.unlink()
    with pytest.raises(StoreError, match=rf"^{missing}: no such file; run dvc repro {stage}@{NAME},"):
        read_problem("toy", NAME, PROBLEM, read_comparison("toy", NAME), swept=True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "its columns do not begin with task,best"),
        ("task,worst\n1,2\n", "its columns do not begin with task,best"),
        ("task,best\n1,2\n2,3,4\n", "2 values"),
        ("task,best\n1,2\n2,x\n", "'x'"),
        ("task,best\n1,1\n2,inf\n", "finite"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path, content, reason):
    path, stage = tmp_path / "t.csv", "evaluate@a-b"
    assert reason in refused(path, content, stage, read_result_table, path, {"task": int, "best": float}, stage)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ("{}", "made_with"),
        ('{"made_with": {}, "test_images": 3, "methods": {}}', "methods: "),
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
def test_a_malformed_comparison_is_refused(written, change, key):
    content = change if isinstance(change, str) else compared(ENTRY | change)
    assert key in refused(paths.comparison("toy", NAME), content, f"compare@{NAME}", read_comparison, "toy", NAME)


def test_malformed_evaluations_and_sweeps_are_refused(written):
    evaluation = paths.evaluation("toy", NAME)
    assert "A_T" in refused(evaluation, '{"A_T": "high"}', f"evaluate@{NAME}", read_evaluation, "toy", NAME)
    sweep = paths.sensitivity("toy", NAME) / "D.csv"
    refused(sweep, "of,D,A_T,sd\no,50,x,1\n", f"sensitivity_D@{NAME}", read_sweeps, "toy", NAME)


def test_the_reason_why_a_method_failed_is_read_as_one_line(written):
    failed = {"title": "EWC", "group": "peer", "source_samples": True, "failed": "too\nfew"}
    paths.comparison("toy", NAME).write_text(compared(failed))
    assert read_comparison("toy", NAME).methods["ewc"].failed == "too few"
