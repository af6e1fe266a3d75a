"""The stage `tables`: all tables or none, the same bytes every time, one line for what is wrong.

What a malformed comparison or sweep says is in tests/report/test_result_files.py.
"""

import csv
import json

import pytest

from pipeline import paths
from pipeline.stage import main

SUITE = "office31"
MADE_WITH = {"rff.D": 50, "rff.sigma": 1e-4}
GROUPS = {
    "clip_zero_shot": "reference",
    "source_only": "reference",
    "no_clip": "ablation",
    "calibrated": "referee",
    "ewc-head": "head",
}


def comparison(base):
    """Return a comparison as the stage `compare` writes it."""
    methods = {
        method: {
            "title": f"the {method}",
            "group": group,
            "source_samples": method == "ewc-head",
            "A_T": base + step + 0.75,
            "A_T_sd": 0.75,
            "A_T_per_seed": [base + step, base + step + 1.5],
        }
        for step, (method, group) in enumerate(GROUPS.items())
    }
    return {"made_with": MADE_WITH, "test_images": 30, "methods": methods}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def project(params_alone):
    """A project with two compared problems of Office-31, the first of them swept."""
    params = params_alone.read_params()
    first = {"source": "amazon", "target": "dslr"}
    params |= {
        "suite": SUITE,
        "datasets": {SUITE: {"classes_per_task": 2, "class_names": {}}},
        "domains": dict.fromkeys(("amazon", "dslr"), params["domains"]["left"] | {"dataset": SUITE}),
        "sources": {"amazon": {}, "dslr": {}},
        "problems": {"amazon-dslr": first, "dslr-amazon": {"source": "dslr", "target": "amazon"}},
        "swept": {"amazon-dslr": first},
    }
    params_alone.write_params(params)
    for base, name in enumerate(params["problems"]):
        write(paths.comparison(SUITE, name), comparison(50 + 20 * base))
    swept, chosen = paths.sensitivity(SUITE, "amazon-dslr"), paths.selection(SUITE, "amazon-dslr")
    write(swept / "D.csv", "of,D,A_T,sd\no,50,80.5,1.0\no,500,85.0,0.5\n")
    write(swept / "sigma.csv", "of,sigma,A_T,sd\no,1e-4,85.0,0.5\n")
    for setting in ("D", "sigma"):
        write(swept / f"{setting}.json", {"made_with": MADE_WITH, "values": []})
    write(chosen / "made_with.json", MADE_WITH)
    write(chosen / "values.csv", "of,setting,value,A_T,certainty\no,D,50,80.5,1\no,D,500,85,2\n")
    write(chosen / "choices.csv", "setting,score,chosen,best,regret,rank_correlation\nD,certainty,500,500,0.0,1.00\n")
    return params_alone


def written():
    folder = paths.suite_tables(SUITE)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_table_in_every_format_and_the_same_bytes_again(project, capsys):
    assert main(["tables"]) == 0
    names = ("ablation", "comparison", "headline", "selection", "sensitivity")
    assert list(written()) == [f"{name}.{e}" for name in names for e in ("csv", "md", "tex")]
    output = capsys.readouterr().out
    assert "dslr-amazon" in output
    assert max(map(len, output.splitlines())) <= 120
    with (paths.suite_tables(SUITE) / "headline.csv").open() as file:
        rows = {row["problem"]: row for row in csv.DictReader(file)}
    assert rows["amazon-dslr"]["calibrated"] == "53.75"
    assert rows["mean"]["gain"] == "2.00"
    assert "published (other protocol)" in written()["comparison.md"].decode()
    before = written()
    assert main(["tables"]) == 0
    assert written() == before


def test_tables_without_figures_are_left_out_even_where_they_were(project):
    assert main(["tables"]) == 0
    write(paths.comparison(SUITE, "left-right"), "not JSON")  # of a problem that is not in the suite
    for name in ("amazon-dslr", "dslr-amazon"):
        entries = json.loads(paths.comparison(SUITE, name).read_text())
        del entries["methods"]["no_clip"]
        write(paths.comparison(SUITE, name), entries)
    project.write_params(project.read_params() | {"swept": {}})  # the files of the sweep remain
    assert main(["tables"]) == 0
    assert {name.split(".")[0] for name in written()} == {"comparison", "headline"}
    project.write_params(project.read_params() | {"problems": {}, "sources": {}})
    assert main(["tables"]) == 0
    assert written() == {}


@pytest.mark.parametrize(
    ("missing", "stage"),
    [
        (paths.comparison(SUITE, "dslr-amazon"), "compare@dslr-amazon"),
        (paths.sensitivity(SUITE, "amazon-dslr") / "D.csv", "sensitivity_D@amazon-dslr"),
        (paths.selection(SUITE, "amazon-dslr") / "choices.csv", "select@amazon-dslr"),
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
    write(paths.selection(SUITE, "amazon-dslr") / "made_with.json", MADE_WITH | {"rff.D": 7})
    assert main(["tables"]) == 0
    assert "values chosen of amazon-dslr made with rff.D=7" in written()["selection.md"].decode()
