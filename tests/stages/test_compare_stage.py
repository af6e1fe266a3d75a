"""Test `compare`, `sensitivity` and `select` on the caches of a small project."""

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
    """Return the finished project with its original parameters."""
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
    """Set the methods to compare, with ``run`` in place of `paper`."""
    replaced = replace(referee_variant("paper"), run=run)
    for module in (compare, method_scores):
        monkeypatch.setattr(
            module, "compared_method", lambda name: replaced if name == "paper" else compared_method(name)
        )
    project.write_params(small_params() | {"compare": {"methods": list(methods)}, "swept": {}})


def refuse(_):
    raise InputError("there is too little weight\nfor it")


def test_calibrated_has_the_same_figures_as_evaluate(project):
    compared, evaluated = result(project, "comparison.json")["methods"], evaluation(project)
    assert list(compared) == small_params()["compare"]["methods"]
    for name in ("A_T", "A_T_sd", "average_incremental", "forgetting", "A_T_per_seed"):
        assert compared["calibrated"][name] == evaluated[name]
    assert compared["source_only"]["A_T"] == evaluated["source_only_A_T"]
    assert compared["clip_zero_shot"]["A_T"] == evaluated["clip_only_A_T"]


def test_select_writes_the_choice_of_each_score_and_its_regret(project):
    """This is the stage of `dvc repro select` in docs/how-to/sweeps.md."""
    values, choices = (csv_of(project, f"selection/{name}.csv") for name in ("values", "choices"))
    assert [(row["setting"], row["value"]) for row in values] == [
        ("sigma", "1e-05"), ("sigma", "0.0001"), ("ridge", "0.1"), ("ridge", "0.3"),
    ]  # fmt: skip
    evaluated = evaluation(project)["A_T"]
    assert float(values[1]["A_T"]) == float(values[3]["A_T"]) == evaluated  # the current settings
    by_value = {(row["setting"], row["value"]): float(row["A_T"]) for row in values}
    for row in choices:
        chosen, best = (by_value[row["setting"], row[key]] for key in ("chosen", "best"))
        assert float(row["regret"]) == pytest.approx(best - chosen, abs=0.011)
    assert {row["score"] for row in choices} >= {"information", "source_likelihood"}


def test_select_suggests_a_name_for_an_unknown_option(project, refused):
    project.change_params(select={"options": {"ridgee": [0.1]}})
    assert "ridge" in refused(main, "select", PROBLEM)


def test_select_accepts_an_option_whose_values_are_lists(project):
    project.change_params(select={"options": {"views": [["original"], ["original", "zeros"]]}})
    assert main(["select", PROBLEM]) == 0
    values = [row["value"] for row in csv_of(project, "selection/values.csv") if row["setting"] == "views"]
    assert values == ["original", "original, zeros"]


def test_a_sweep_gives_the_figure_of_evaluate_at_the_current_D_and_sigma(project):
    project.change_params(sensitivity={"D": [20, 50], "sigma": [1e-4, 1e-2]})
    for setting, value in (("D", "50"), ("sigma", "0.0001")):
        assert main(["sensitivity", PROBLEM, setting]) == 0
        rows = {row[setting]: row for row in csv_of(project, f"sensitivity/{setting}.csv")}
        assert float(rows[value]["A_T"]) == evaluation(project)["A_T"]


def test_the_entry_of_a_method_that_cannot_run_gives_the_reason(project, monkeypatch, capsys):
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
    for suffix in ("md", "csv", "tex"):
        assert "failed" in project.results("tables", f"comparison.{suffix}").read_text()


def test_the_ceiling_is_marked_as_not_a_method_and_changes_no_other_entry(project, capsys):
    methods = ["calibrated", "labelled-target"]
    project.write_params(small_params() | {"compare": {"methods": methods}, "swept": {}})
    before = result(project, "comparison.json")["methods"]["calibrated"]
    assert main(["compare", PROBLEM]) == 0
    assert "(calibrated)" in capsys.readouterr().out
    entries = result(project, "comparison.json")["methods"]
    assert entries["labelled-target"]["group"] == "ceiling"
    assert "not a method" in entries["labelled-target"]["title"]
    assert entries["calibrated"] == before


def test_only_the_ceiling_gets_target_labels_and_its_seed_shares_computed_features(project, monkeypatch):
    problem = open_project(load_params()).labelled_problem(PROBLEM)
    original = problem.seed(0, read_bases(paths.bases("left")).basis(0))
    seeds = []

    def recording(name):
        method = compared_method(name)
        return replace(method, run=lambda seed: seeds.append(seed) or method.run(seed))

    monkeypatch.setattr(method_scores, "compared_method", recording)
    for name in ("calibrated", "stata", "labelled-target"):
        method_scores.run_method(problem, 0, original, name)
    assert [seed is original for seed in seeds] == [True, True, False]
    train = problem.target.train_index(problem.target.seeds[0])
    np.testing.assert_array_equal(seeds[-1].source.labels, problem.target.labels[train])
    assert seeds[-1].target is original.target

    before, sharing = set(original._shared), ceiling_seed(problem, 0, original)
    separate = Seed(original.number, original.basis, sharing.source, original.target)
    ceiling = compared_method("labelled-target")
    np.testing.assert_array_equal(ceiling.run(sharing), ceiling.run(separate))
    assert set(original._shared) == before
    assert [kind for kind, *_ in sharing._shared] == ["source"]


@pytest.mark.parametrize(("methods", "key"), [(["calibratd"], "compare.methods"), (["paper"], f"compare {PROBLEM}")])
def test_the_stage_fails_and_writes_nothing_if_no_method_can_run(project, monkeypatch, refused, methods, key):
    use_methods(project, monkeypatch, refuse, *methods)
    before = result(project, "comparison.json")
    line = refused(main, "compare", PROBLEM)
    assert key in line
    assert result(project, "comparison.json") == before


def test_a_bug_in_a_method_is_not_hidden(project, monkeypatch):
    use_methods(project, monkeypatch, lambda _: 1 / 0, "paper", "calibrated")
    with pytest.raises(ZeroDivisionError):
        main(["compare", PROBLEM])
