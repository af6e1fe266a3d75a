"""Test that sharing results between methods, or between runs of a sweep, changes no prediction in any order."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison import sweep
from pipeline.comparison.referee_variants import run_variant
from pipeline.comparison.selection import source_likelihood
from pipeline.comparison.sweep import Run, runs_by_setting, seed_outcomes
from pipeline.errors import ParamsError
from pipeline.method import kernel_rows
from pipeline.method.kernel_rows import no_sharing
from pipeline.method.random_fourier_features import draw_basis, phases
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.problem.seed import Seed
from pipeline.store.basis_file import BasisRecipe

# variants that differ in the features, the source fit, the views or the target's statistics
OPTIONS = {
    **VARIANTS,
    "another ridge": replace(CALIBRATED, ridge=1.0),
    "another weight of CLIP": replace(CALIBRATED, clip_in_kernel=1.0),
    "float64": replace(CALIBRATED, arithmetic="float64"),
}


def new_seed():
    seed = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    return seed.with_basis(draw_basis(10, 60, 1e-4, "gamma", 0, d_clip=5))  # keeps 16 directions


@pytest.fixture(scope="module")
def unshared():
    """Predictions and likelihood of each variant on its own seed without sharing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Seed, "shared", lambda _self, key, make: no_sharing(key, make))
        return {
            name: (run_variant(new_seed(), options), source_likelihood(new_seed(), options))
            for name, options in OPTIONS.items()
        }


@pytest.mark.parametrize("order", [1, -1])
def test_sharing_between_variants_changes_no_result(unshared, order):
    seed = new_seed()
    for name in list(OPTIONS)[::order]:
        expected, likelihood = unshared[name]
        assert source_likelihood(seed, OPTIONS[name]) == likelihood, name
        np.testing.assert_array_equal(run_variant(seed, OPTIONS[name]), expected, err_msg=name)
    labels = [np.concatenate(predicted).tobytes() for predicted, _ in unshared.values()]
    assert len(set(labels)) > len(OPTIONS) // 2  # mixed-up variants would be noticed


RFF = {"D": 60, "sigma": 1.0, "convention": "bandwidth"}


def basis_recipe(_source, *, D, sigma, convention):
    sigmas = {"sigmas": (sigma,), "seeds": (0,)}
    return BasisRecipe(10, D, convention, orthogonal=False, d_clip=5, **sigmas)


@pytest.fixture
def problem(monkeypatch):
    """Return a problem whose accuracy is the share of class 0 among the predictions after the last task."""
    monkeypatch.setattr(sweep, "basis_recipe", basis_recipe)
    fake = SimpleNamespace(source=None)
    fake.accuracies = lambda _index, predictions: np.array([[np.mean(predictions[-1] == 0)]])
    return fake


def test_settings_that_lead_to_the_same_run_are_equal(problem):
    values = {"D": [20, 60], "sigma": [1.0, 0.3], "ridge": [0.3, 0.1]}
    runs = runs_by_setting(problem, RFF, "calibrated", {"neighbours": 3}, values)
    assert list(runs) == [(name, value) for name, tried in values.items() for value in tried]
    default = Run(basis_recipe(None, **RFF), replace(CALIBRATED, neighbours=3))
    assert [run == default for run in runs.values()] == [False, True, True, False, True, False]


def test_only_d_and_sigma_of_the_basis_and_options_of_the_method_are_swept(problem):
    with pytest.raises(ParamsError, match="convention: unknown"):
        runs_by_setting(problem, RFF, "calibrated", {}, {"convention": ["gamma"]})


@pytest.mark.parametrize("name", ["calibrated", "released", "source_only"])
def test_runs_on_a_shared_basis_predict_the_same_as_separate_runs(problem, name):
    seed = ShiftedDomains(0, n=105, noise=1.2).build(D=7, clip=True)
    chosen = [VARIANTS[name], replace(VARIANTS[name], weight_floor=0.5)]
    runs = [Run(basis_recipe(None, **RFF), options) for options in chosen]
    for run, outcome in zip(
        runs, seed_outcomes(problem, runs[1:], 0, seed, runs, recipes=[runs[0].recipe]), strict=True
    ):
        separate = run_variant(seed.with_basis(run.recipe.draw(0)), run.options)
        assert outcome.accuracy == np.mean(separate[-1] == 0)
        assert bool(outcome.scores) == (run is runs[1] and name != "source_only")


def sweep_predictions(problem, opened, recipes):
    """Return the predictions of `calibrated` under each basis of a sweep."""
    swept = []
    problem.accuracies = lambda _index, predictions: swept.append(predictions) or np.ones((1, 1))
    for recipe in recipes:
        seed_outcomes(problem, [], 0, opened, [Run(recipe, CALIBRATED)], recipes=recipes)
    return swept


def assert_same_without_sharing(swept, opened, recipes):
    for recipe, predictions in zip(recipes, swept, strict=True):
        np.testing.assert_array_equal(predictions, run_variant(opened.with_basis(recipe.draw(0)), CALIBRATED))


@pytest.mark.parametrize("order", [1, -1])
def test_bases_share_features_and_neighbours_without_changing_predictions(problem, monkeypatch, order):
    """Sweep several D, some with fewer directions than features, and several gammas."""
    opened = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    settings = [(12, 1e-4), (40, 1e-4), (60, 1e-4), (50, 1e-5), (60, 0.3)]
    recipes = [basis_recipe(None, D=D, sigma=sigma, convention="gamma") for D, sigma in settings][::order]
    mapped = []
    monkeypatch.setattr(kernel_rows, "phases", lambda basis, x: mapped.append(len(x)) or phases(basis, x))
    swept = sweep_predictions(problem, opened, recipes)
    assert len(mapped) == 3 * (3 + 3 + 1)  # once per view of each source task, each target task and the test images
    assert_same_without_sharing(swept, opened, recipes)


def test_bases_with_different_weights_of_joined_models_share_no_features(problem):
    opened = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    plain = basis_recipe(None, D=60, sigma=0.3, convention="gamma")
    recipes = [replace(plain, widths=(6, 4), weights=((1.0, weight),)) for weight in (1.0, 0.0)]
    swept = sweep_predictions(problem, opened, recipes)
    assert_same_without_sharing(swept, opened, recipes)
    assert any((left != right).any() for left, right in zip(*swept, strict=True))  # the weights change predictions
