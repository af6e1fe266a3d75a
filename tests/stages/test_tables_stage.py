"""The stage `tables`: which tables there are, the same bytes every time.

What a missing or malformed result says is in tests/report/test_result_files.py.
"""

import json

import pytest

from pipeline import paths
from pipeline.stage import main
from report_content import MADE_WITH, PLAIN, problem, write_results
from small_project import read_csv

CHOSEN = paths.selection("toy", "left-right")


def write(*, ablation):
    """Write the results of two problems, the first of them swept."""
    for name, base in (("left-right", 70), ("right-left", 50)):
        results = problem(name, PLAIN, base, swept=base == 70)
        methods = results.comparison.methods
        if ablation:
            methods["no_clip"] = methods["paper"].model_copy(update={"group": "ablation"})
        write_results(results)


@pytest.fixture
def project(params_alone):
    params_alone.change_params(sources={"right": {}}, problems={"right-left": {"source": "right", "target": "left"}})
    write(ablation=True)
    return params_alone


def written():
    return {path.name: path.read_bytes() for path in sorted(paths.suite_tables("toy").iterdir())}


def test_every_table_in_every_format_and_the_same_bytes_again(project, capsys):
    assert main(["tables"]) == 0
    names = ("ablation", "comparison", "headline", "selection", "sensitivity")
    assert list(written()) == [f"{name}.{e}" for name in names for e in ("csv", "md", "tex")]
    output = capsys.readouterr().out
    assert "right-left" in output
    assert max(map(len, output.splitlines())) <= 120
    rows = {row["problem"]: row for row in read_csv(paths.suite_tables("toy") / "headline.csv")}
    assert rows["left-right"]["calibrated"] == "82.00"
    assert rows["mean"]["gain"] == "8.00"
    before = written()
    assert main(["tables"]) == 0
    assert written() == before


def test_tables_without_figures_are_left_out_even_where_they_were(project):
    assert main(["tables"]) == 0
    other = paths.comparison("toy", "left-wrong")  # of a problem that is not in the suite
    other.parent.mkdir()
    other.write_text("not JSON")
    write(ablation=False)
    project.write_params(project.read_params() | {"swept": {}})  # the files of the sweep remain
    assert main(["tables"]) == 0
    assert {name.split(".")[0] for name in written()} == {"comparison", "headline"}
    project.write_params(project.read_params() | {"problems": {}, "sources": {}})
    assert main(["tables"]) == 0
    assert written() == {}


def test_a_sweep_of_other_parameters_is_named(project):
    (CHOSEN / "made_with.json").write_text(json.dumps(MADE_WITH | {"rff.D": 7}))
    assert main(["tables"]) == 0
    assert "values chosen of left-right made with rff.D=7" in written()["selection.md"].decode()
