"""The stage `tables`: all tables or none, the same bytes every time, one line for what is wrong."""

import csv
import json

import pytest

from pipeline.errors import StoreError
from pipeline.params import load_params
from pipeline.stages import places
from pipeline.stages.tables import main, read_sweeps
from small_project import SmallProject, small_params

TITLES = {
    "clip_zero_shot": "reference",
    "source_only": "reference",
    "no_clip": "ablation",
    "paper": "referee",
    "released": "referee",
    "calibrated": "referee",
    "ewc": "peer",
}


def compared(base):
    """Return a comparison as the stage `compare` writes it."""
    told = {}
    for step, (method, group) in enumerate(TITLES.items()):
        seeds = [base + step, base + step + 1.5]
        told[method] = {
            "title": f"the {method}",
            "group": group,
            "source_samples": method == "ewc",
            "A_T": sum(seeds) / 2,
            "A_T_sd": 0.75,
            "average_incremental": base,
            "forgetting": 1.2,
            "A_T_per_seed": seeds,
        }
    return told


def write(path, told):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told if isinstance(told, str) else json.dumps(told))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a project with two compared problems of Office-31."""
    params = small_params()
    domain = {**params["domains"]["left"], "dataset": "office31"}
    params |= {
        "suite": "office31",
        "datasets": {"office31": {"classes_per_task": 2, "class_names": {}}},
        "domains": dict.fromkeys(("amazon", "dslr"), domain),
        "sources": {"amazon": {}, "dslr": {}},
        "problems": {
            "amazon-dslr": {"source": "amazon", "target": "dslr"},
            "dslr-amazon": {"source": "dslr", "target": "amazon"},
        },
        "swept": {},
    }
    SmallProject(tmp_path).write_params(params)
    monkeypatch.chdir(tmp_path)
    for base, name in enumerate(params["problems"]):
        write(places.comparison(name), compared(50 + 20 * base))
    return SmallProject(tmp_path)


def list_as_swept(project, *names):
    params = project.read_params()
    params["swept"] = {name: params["problems"][name] for name in names}
    project.write_params(params)


def sweep(problem):
    write(places.sensitivity(problem) / "D.csv", "D,A_T,sd\n50,80.5,1.0\n500,85.0,0.5\n")
    write(places.sensitivity(problem) / "sigma.csv", "sigma,A_T,sd\n1e-4,85.0,0.5\n")


def written():
    return {path.name: path.read_bytes() for path in sorted(places.suite_tables().iterdir())}


def refused(capsys):
    """Run the stage, which must fail without touching results/suite; return its one line."""
    before = written() if places.suite_tables().exists() else None
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert (written() if places.suite_tables().exists() else None) == before
    return line.removeprefix("referee: error: ")


def test_every_table_in_every_format(project, capsys):
    sweep("amazon-dslr")
    list_as_swept(project, "amazon-dslr")
    assert main([]) == 0
    names = ("ablation", "comparison", "headline", "sensitivity")
    assert list(written()) == [f"{name}.{e}" for name in names for e in ("csv", "md", "tex")]
    said = capsys.readouterr().out
    assert "Final accuracy, Office-31" in said
    assert "dslr-amazon" in said
    assert max(map(len, said.splitlines())) <= 120
    with (places.suite_tables() / "headline.csv").open() as file:
        rows = {r["problem"]: r for r in csv.DictReader(file)}
    assert rows["amazon-dslr"]["calibrated"] == "55.75"
    assert rows["mean"]["gain"] == "4.00"
    comparison = (places.suite_tables() / "comparison.md").read_text()
    assert "#### published (other protocol)" in comparison
    assert "the ewc†" in comparison
    assert "| sensitivity" not in comparison


def test_the_same_bytes_again(project):
    assert main([]) == 0
    before = written()
    assert main([]) == 0
    assert written() == before


def test_without_ablations_or_sweeps_these_are_left_out_even_where_they_were(project):
    sweep("amazon-dslr")
    list_as_swept(project, "amazon-dslr")
    assert main([]) == 0
    for name in ("amazon-dslr", "dslr-amazon"):
        told = json.loads(places.comparison(name).read_text())
        del told["no_clip"]
        write(places.comparison(name), told)
    list_as_swept(project)
    assert main([]) == 0
    assert {name.split(".")[0] for name in written()} == {"comparison", "headline"}


def test_problems_of_a_former_suite_are_not_read(project):
    write(places.comparison("left-right"), "not JSON")
    sweep("left-right")
    assert main([]) == 0
    assert "sensitivity.md" not in written()
    assert b"left" not in written()["comparison.csv"]


def test_no_problems_no_tables(project, capsys):
    params = project.read_params()
    params |= {"problems": {}, "sources": {}, "swept": {}}
    project.write_params(params)
    assert main([]) == 0
    assert written() == {}
    assert "no problems" in capsys.readouterr().out


def test_sweeps_are_those_that_params_list(project):
    sweep("amazon-dslr")  # of a former run: not listed any more
    list_as_swept(project, "dslr-amazon")
    listing = load_params()
    with pytest.raises(StoreError, match=r"sensitivity/dslr-amazon/D.csv: no such file"):
        read_sweeps(listing)
    sweep("dslr-amazon")
    assert list(read_sweeps(listing)) == ["dslr-amazon"]
    assert read_sweeps(listing)["dslr-amazon"]["D"] == {50.0: (80.5, 1.0), 500.0: (85.0, 0.5)}


def test_a_comparison_that_is_missing(project, capsys):
    assert main([]) == 0
    capsys.readouterr()
    places.comparison("dslr-amazon").unlink()
    assert refused(capsys) == (
        "results/comparison/dslr-amazon.json: no such file; "
        "run dvc repro compare@dslr-amazon, or dvc pull --allow-missing"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no methods in it"),
        ("{}", "no methods in it"),
        ('{"x": 1}', "x: not a mapping"),
        ({"title": None}, "ewc.title: missing or not a str"),
        ({"group": "pear"}, "ewc.group: 'pear'; did you mean 'peer'?"),
        ({"source_samples": 1}, "ewc.source_samples: missing or not a bool"),
        ({"A_T": "96"}, "ewc.A_T: '96' is not a number from 0 to 100"),
        ({"A_T": float("nan")}, "ewc.A_T: nan is not a number from 0 to 100"),
        ({"A_T": True}, "ewc.A_T: True is not a number from 0 to 100"),
        ({"A_T": 100.1}, "ewc.A_T: 100.1 is not a number from 0 to 100"),
        ({"A_T_sd": -1}, "ewc.A_T_sd: -1 is not a number from 0 to 100"),
        ({"A_T_sd": None}, "ewc.A_T_sd: None is not a number from 0 to 100"),
        ({"A_T_per_seed": []}, "ewc.A_T_per_seed: no seed"),
        ({"A_T_per_seed": [1, "2"]}, "ewc.A_T_per_seed: '2' is not a number from 0 to 100"),
    ],
)
def test_a_comparison_that_is_malformed(project, capsys, change, message):
    path = places.comparison("amazon-dslr")
    if isinstance(change, dict):
        told = json.loads(path.read_text())
        told["ewc"] |= change
        change = told
    write(path, change)
    assert refused(capsys) == f"{path}: {message}; run dvc repro --force compare@amazon-dslr"
    assert not places.suite_tables().exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("D.csv", "", "not a table of D,A_T,sd"),
        ("D.csv", "D,A_T,sd\n", "not a table of D,A_T,sd"),
        ("sigma.csv", "D,A_T,sd\n1,2,3\n", "not a table of sigma,A_T,sd"),
        ("D.csv", "D,A_T,sd\n50,x,1\n", "line 2: 'x' is not a number"),
        ("D.csv", "D,A_T,sd\n50,1\n", "line 2: 2 values, not 3"),
        ("D.csv", "D,A_T,sd\n50,1,1\n50,2,1\n", "line 3: D 50 stands there twice"),
        ("D.csv", "D,A_T,sd\nnan,1,1\n", "line 2: D: 'nan' is not a number above 0"),
        ("D.csv", "D,A_T,sd\n50,101,1\n", "line 2: A_T: 101.0 is not a number from 0 to 100"),
    ],
)
def test_a_sweep_that_is_malformed(project, capsys, file, content, message):
    sweep("amazon-dslr")
    list_as_swept(project, "amazon-dslr")
    write(places.sensitivity("amazon-dslr") / file, content)
    assert refused(capsys) == (
        f"results/sensitivity/amazon-dslr/{file}: {message}; "
        "run dvc repro --force sensitivity@amazon-dslr"
    )
