"""Test which tables the stage `tables` writes, with the same bytes every time.

Messages for missing or malformed results are tested in tests/report/test_result_files.py.
"""

import json

import pytest

from pipeline import paths
from pipeline.stage import main
from report_content import MADE_WITH, PLAIN, problem, write_results
from small_project import read_csv

SELECTION = paths.selection("toy", "left-right")


def write_two_problems(*, ablation):
    """Write the results of two problems, of which only the first is swept."""
    for name, base in (("left-right", 70), ("right-left", 50)):
        results = problem(name, PLAIN, base, swept=base == 70)
        methods = results.comparison.methods
        if ablation:
            methods["no_clip"] = methods["paper"].model_copy(update={"group": "ablation"})
        write_results(results)


@pytest.fixture
def project(params_only):
    params_only.change_params(sources={"right": {}}, problems={"right-left": {"source": "right", "target": "left"}})
    write_two_problems(ablation=True)
    return params_only


def table_files():
    return {path.name: path.read_bytes() for path in sorted(paths.suite_tables("toy").iterdir())}


def test_every_table_is_written_in_every_format_with_the_same_bytes_again(project, capsys):
    assert main(["tables"]) == 0
    names = ("ablation", "comparison", "headline", "selection", "sensitivity")
    assert list(table_files()) == [f"{name}.{suffix}" for name in names for suffix in ("csv", "md", "tex")]
    output = capsys.readouterr().out
    assert "right-left" in output
    assert max(map(len, output.splitlines())) <= 120
    rows = {row["problem"]: row for row in read_csv(paths.suite_tables("toy") / "headline.csv")}
    assert rows["left-right"]["calibrated"] == "82.00"
    assert rows["mean"]["gain"] == "8.00"
    before = table_files()
    assert main(["tables"]) == 0
    assert table_files() == before
    (SELECTION / "values.csv").unlink()
    assert main(["tables"]) == 2
    assert table_files() == before  # the former tables stay


def test_tables_without_figures_are_removed(project):
    assert main(["tables"]) == 0
    other = paths.comparison("toy", "left-wrong")  # not a problem of the suite
    other.parent.mkdir()
    other.write_text("not JSON")
    write_two_problems(ablation=False)
    project.write_params(project.read_params() | {"swept": {}})  # the files of the sweep remain
    assert main(["tables"]) == 0
    assert {name.split(".")[0] for name in table_files()} == {"comparison", "headline"}
    project.write_params(project.read_params() | {"problems": {}, "sources": {}})
    assert main(["tables"]) == 0
    assert table_files() == {}


def test_a_sweep_with_other_parameters_is_named(project):
    (SELECTION / "made_with.json").write_text(json.dumps(MADE_WITH | {"rff.D": 7}))
    assert main(["tables"]) == 0
    assert "values chosen of left-right made with rff.D=7" in table_files()["selection.md"].decode()
