"""Each suite of the paper, on a tiny image set laid out as the dataset is downloaded: `use`, `dvc repro`, tables.

The commands of README.md's "Your benchmark".
"""

import csv

import pytest

from downloaded_datasets import PER_CLASS
from pipeline.params import load_params
from suite_project import suite_project

pytestmark = pytest.mark.slow

PROBLEMS = {"office31": 6, "officehome": 12, "visda": 1, "domainnet": 2}
# one of every group; `paper` divides by the weight of a task less one, and these tasks have too few images for it
METHODS = ("clip_zero_shot", "source_only", "no_clip", "released", "calibrated", "ranpac-pseudo")


def read_table(project, name):
    with (project.folder / "results" / load_params(project.folder).suite / "tables" / f"{name}.csv").open(
        encoding="utf-8"
    ) as file:
        return list(csv.DictReader(file))


def assert_tables(project, problems):
    """Every problem in every table, every figure a percentage, what the paper published apart."""
    folder = project.results("tables")
    names = ("ablation", "comparison", "headline", "selection", "sensitivity")
    assert sorted(file.name for file in folder.iterdir()) == [
        f"{name}.{ending}" for name in names for ending in ("csv", "md", "tex")
    ]
    rows = read_table(project, "comparison")
    measured = {row["method"]: row for row in rows if row["kind"] == "measured"}
    published = [row for row in rows if row["kind"] == "published"]
    assert set(measured) == set(METHODS)
    assert {row["title"] for row in published} >= {"REFEREE", "CDCL"}
    for row in rows:
        assert all(0 <= float(row[problem]) <= 100 for problem in problems), row
    headline = {row["problem"]: row for row in read_table(project, "headline")}
    assert set(headline) - {"mean"} == set(problems)
    for problem, row in headline.items():
        if problem in problems:
            assert row["calibrated"] == measured["calibrated"][problem]
    assert "published (other protocol)" in (folder / "comparison.md").read_text()
    assert "published (other protocol)" in (folder / "comparison.tex").read_text()


def run_suite(folder, suite, change=lambda project: None):
    project = suite_project(folder, suite)
    change(project)
    assert f"data/{suite}" not in project.run("referee", "doctor", ok=False).stderr
    project.change_params(compare={"methods": list(METHODS)})
    params = project.read_params()
    ran = project.repro()
    problems = list(params["problems"])
    assert len(problems) == PROBLEMS[suite]
    assert {s for s in ran if s.startswith("source@")} == {f"source@{s}" for s in params["sources"]}
    assert_tables(project, problems)
    assert project.repro() == set()
    return project


def rows_of(project, domain):
    return len((project.folder / "cache/manifests" / domain / "images/images.csv").read_text().splitlines()) - 1


@pytest.mark.long
def test_visda(tmp_path):
    project = run_suite(tmp_path, "visda")
    assert rows_of(project, "visda_train") == 12 * PER_CLASS


@pytest.mark.long
def test_office31(tmp_path):
    run_suite(tmp_path, "office31")


@pytest.mark.long
def test_officehome(tmp_path):
    run_suite(tmp_path, "officehome")


@pytest.mark.long
def test_domainnet_by_folders_and_by_its_published_lists(tmp_path):
    """Clipart by the lists, as suites/domainnet.yaml explains it, sketch by its folders."""

    def by_lists(project):
        folder = project.folder / "data/domainnet"
        texts = ((folder / f"clipart_{part}.txt").read_text() for part in ("train", "test"))
        (folder / "clipart.txt").write_text("".join(texts))
        domains = project.read_params()["domains"]
        domains["domainnet_clipart"]["images"] = "data/domainnet/clipart.txt"
        project.change_params(domains=domains)

    project = run_suite(tmp_path, "domainnet", by_lists)
    assert rows_of(project, "domainnet_clipart") == 345 * PER_CLASS  # one image is in no list
    assert rows_of(project, "domainnet_sketch") == 345 * PER_CLASS
