"""`compare`, `sensitivity` and `select` from real caches of a tiny project; mistakes are one line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pipeline import paths
from pipeline.comparison import method_scores
from pipeline.comparison.ceiling import ceiling_seed
from pipeline.comparison.referee_variants import referee_variant
from pipeline.comparison.registry import compared_method
from pipeline.config.params import load_params
from pipeline.errors import InputError
from pipeline.problem.seed import Seed
from pipeline.stage import main, open_project
from pipeline.stages import compare
from pipeline.store.basis_file import read_bases
from small_project import PROBLEM, read_csv, small_params

pytestmark = pytest.mark.slow


@pytest.fixture
def project(run_project, monkeypatch):
    """The project that was run, with the params it was run with."""
    monkeypatch.chdir(run_project.folder)
    run_project.write_params(small_params())
    return run_project


def result(project, name):
    return json.loads(project.results("problems", PROBLEM, name).read_text())


def csv_of(project, name):
    return read_csv(project.results("problems", PROBLEM, name))


def evaluation(project):
    return json.loads(project.results("evaluations", f"{PROBLEM}.json").read_text())


def use_methods(project, monkeypatch, run, *methods):
    """List methods to compare, of which `paper` does ``run``."""
    replaced = replace(referee_variant("paper"), run=run)
    for module in (compare, method_scores):
        monkeypatch.setattr(
            module, "compared_method", lambda name: replaced if name == "paper" else compared_method(name)
        )
    project.write_params(small_params() | {"compare": {"methods": list(methods)}, "swept": {}})


def refuse(_):
    raise InputError("there is too little weight\nfor it")


def test_calibrated_has_the_figures_of_evaluate(project):
    compared, evaluated = result(project, "comparison.json")["methods"], evaluation(project)
    assert list(compared) == small_params()["compare"]["methods"]
    for name in ("A_T", "A_T_sd", "average_incremental", "forgetting", "A_T_per_seed"):
        assert compared["calibrated"][name] == evaluated[name]
    assert compared["source_only"]["A_T"] == evaluated["source_only_A_T"]
    assert compared["clip_zero_shot"]["A_T"] == evaluated["clip_only_A_T"]


def test_select_says_what_each_score_chooses_and_what_labels_would_have(project):
    """The stage of `dvc repro select` in docs/how-to/sweeps.md."""
    values, choices = (csv_of(project, f"selection/{name}.csv") for name in ("values", "choices"))
    assert [(row["setting"], row["value"]) for row in values] == [
        ("sigma", "1e-05"), ("sigma", "0.0001"), ("ridge", "0.1"), ("ridge", "0.3"),
    ]  # fmt: skip
    evaluated = evaluation(project)["A_T"]
    assert float(values[1]["A_T"]) == float(values[3]["A_T"]) == evaluated  # the settings as they are
    by_value = {(row["setting"], row["value"]): float(row["A_T"]) for row in values}
    for row in choices:
        chosen, best = (by_value[row["setting"], row[key]] for key in ("chosen", "best"))
        assert float(row["regret"]) == pytest.approx(best - chosen, abs=0.011)
    assert {row["score"] for row in choices} >= {"information", "source_likelihood"}


def test_select_names_an_option_that_is_none(project, refused):
    project.change_params(select={"options": {"ridgee": [0.1]}})
    assert "ridge" in refused(main, "select", PROBLEM)


def test_select_tries_an_option_that_is_a_list(project):
    project.change_params(select={"options": {"views": [["original"], ["original", "zeros"]]}})
    assert main(["select", PROBLEM]) == 0
    tried = [row["value"] for row in csv_of(project, "selection/values.csv") if row["setting"] == "views"]
    assert tried == ["original", "original, zeros"]


def test_a_sweep_passes_through_the_figure_of_its_own_D_and_sigma(project):
    project.change_params(sensitivity={"D": [20, 50], "sigma": [1e-4, 1e-2]})
    for swept, value in (("D", "50"), ("sigma", "0.0001")):
        assert main(["sensitivity", PROBLEM, swept]) == 0
        rows = {row[swept]: row for row in csv_of(project, f"sensitivity/{swept}.csv")}
        assert float(rows[value]["A_T"]) == evaluation(project)["A_T"]


def test_a_method_that_cannot_run_is_an_entry_with_its_reason(project, monkeypatch, capsys):
    use_methods(project, monkeypatch, refuse, "source_only", "paper", "calibrated")
    assert main(["compare", PROBLEM]) == 0
    reason = "seed 0: there is too little weight for it"
    assert reason in capsys.readouterr().err
    entries = result(project, "comparison.json")["methods"]
    assert list(entries) == ["source_only", "paper", "calibrated"]
    assert entries["paper"]["failed"] == reason
    assert "A_T" not in entries["paper"]
    assert entries["calibrated"]["A_T"] >= 0
    assert main(["tables"]) == 0
    for ending in ("md", "csv", "tex"):
        assert "failed" in project.results("tables", f"comparison.{ending}").read_text()


def test_the_ceiling_is_fitted_to_the_targets_labels_and_is_no_method(project, capsys):
    methods = ["calibrated", "labelled-target"]
    project.write_params(small_params() | {"compare": {"methods": methods}, "swept": {}})
    before = result(project, "comparison.json")["methods"]["calibrated"]
    assert main(["compare", PROBLEM]) == 0
    assert "(calibrated)" in capsys.readouterr().out
    entries = result(project, "comparison.json")["methods"]
    assert entries["labelled-target"]["group"] == "ceiling"
    assert "not a method" in entries["labelled-target"]["title"]
    assert entries["calibrated"] == before  # methods see what they saw without it


def test_no_method_but_the_ceiling_sees_another_problem_of_which_it_shares_the_features(project, monkeypatch):
    problem = open_project(load_params()).labelled_problem(PROBLEM)
    own = problem.seed(0, read_bases(paths.bases("left")).basis(0))
    seen = []

    def watched(name):
        method = compared_method(name)
        return replace(method, run=lambda seed: seen.append(seed) or method.run(seed))

    monkeypatch.setattr(method_scores, "compared_method", watched)
    for name in ("calibrated", "stata", "labelled-target"):
        method_scores.run_method(problem, 0, own, name)
    assert [seed is own for seed in seen] == [True, True, False]
    train = problem.target.train_index(problem.target.seeds[0])
    np.testing.assert_array_equal(seen[-1].source.labels, problem.target.labels[train])
    assert seen[-1].target is own.target

    before, sharing = set(own._shared), ceiling_seed(problem, 0, own)
    alone = Seed(own.number, own.basis, sharing.source, own.target)
    ceiling = compared_method("labelled-target")
    np.testing.assert_array_equal(ceiling.run(sharing), ceiling.run(alone))
    assert set(own._shared) == before
    assert [kind for kind, *_ in sharing._shared] == ["source"]


@pytest.mark.parametrize(("methods", "key"), [(["calibratd"], "compare.methods"), (["paper"], f"compare {PROBLEM}")])
def test_where_no_method_can_run_the_stage_fails_and_writes_nothing(project, monkeypatch, refused, methods, key):
    use_methods(project, monkeypatch, refuse, *methods)
    before = result(project, "comparison.json")
    line = refused(main, "compare", PROBLEM)
    assert key in line
    assert result(project, "comparison.json") == before


def test_a_bug_in_a_method_is_not_hidden(project, monkeypatch):
    use_methods(project, monkeypatch, lambda _: 1 / 0, "paper", "calibrated")
    with pytest.raises(ZeroDivisionError):
        main(["compare", PROBLEM])
