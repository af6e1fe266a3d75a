"""The stage `tables`: all tables or none, the same bytes every time, one line for what is wrong.

What a malformed comparison or sweep says is in tests/report/test_result_files.py.
"""

import csv
import json

import pytest

from pipeline import paths
from pipeline.stage import main
from report_content import MADE_WITH, PLAIN, problem, write_results

FIRST, SECOND = ("toy", "left-right"), ("toy", "right-left")


@pytest.fixture
def project(params_alone):
    """A project with two compared problems, the first of them swept."""
    other = {"source": "right", "target": "left"}
    params_alone.change_params(sources={"right": {}}, problems={"right-left": other})
    write_results(problem("left-right", PLAIN, 50, swept=True))
    write_results(problem("right-left", PLAIN, 70))
    return params_alone


def written():
    folder = paths.suite_tables("toy")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_table_in_every_format_and_the_same_bytes_again(project, capsys):
    assert main(["tables"]) == 0
    names = ("ablation", "comparison", "headline", "selection", "sensitivity")
    assert list(written()) == [f"{name}.{e}" for name in names for e in ("csv", "md", "tex")]
    output = capsys.readouterr().out
    assert "right-left" in output
    assert max(map(len, output.splitlines())) <= 120
    with (paths.suite_tables("toy") / "headline.csv").open() as file:
        rows = {row["problem"]: row for row in csv.DictReader(file)}
    assert rows["left-right"]["calibrated"] == "62.00"
    assert rows["mean"]["gain"] == "8.00"
    before = written()
    assert main(["tables"]) == 0
    assert written() == before


def test_tables_without_figures_are_left_out_even_where_they_were(project):
    assert main(["tables"]) == 0
    paths.comparison("toy", "up-down").parent.mkdir()
    paths.comparison("toy", "up-down").write_text("not JSON")  # of a problem that is not in the suite
    for compared in (paths.comparison(*FIRST), paths.comparison(*SECOND)):
        entries = json.loads(compared.read_text())
        del entries["methods"]["no_clip"]
        compared.write_text(json.dumps(entries))
    project.write_params(project.read_params() | {"swept": {}})  # the files of the sweep remain
    assert main(["tables"]) == 0
    assert {name.split(".")[0] for name in written()} == {"comparison", "headline"}
    project.write_params(project.read_params() | {"problems": {}, "sources": {}})
    assert main(["tables"]) == 0
    assert written() == {}


@pytest.mark.parametrize(
    ("missing", "stage"),
    [
        (paths.comparison(*SECOND), "compare@right-left"),
        (paths.sensitivity(*FIRST) / "D.csv", "sensitivity_D@left-right"),
        (paths.selection(*FIRST) / "choices.csv", "select@left-right"),
    ],
)
def test_a_missing_result_is_named_and_the_former_tables_stay(project, refused, missing, stage):
    assert main(["tables"]) == 0
    before = written()
    missing.unlink()
    line = refused(main, "tables")
    assert str(missing) in line
    assert f"dvc repro {stage}" in line
    assert written() == before


def test_a_sweep_of_other_parameters_is_named(project):
    (paths.selection(*FIRST) / "made_with.json").write_text(json.dumps(MADE_WITH | {"rff.D": 7}))
    assert main(["tables"]) == 0
    assert "values chosen of left-right made with rff.D=7" in written()["selection.md"].decode()
