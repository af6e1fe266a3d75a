"""A sweep: one setting at a time, equal runs once, and each predicts what a run of its own predicts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison import sweep
from pipeline.comparison.referee_variants import run_variant
from pipeline.comparison.sweep import Run, outcomes_of, runs_over
from pipeline.method import kernel_rows
from pipeline.method.random_fourier_features import phases
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.store.basis_file import BasisRecipe

RFF = {"D": 60, "sigma": 1.0, "convention": "bandwidth"}


def recipe(_source, *, D, sigma, convention):
    sigmas = {"sigmas": (sigma,), "seeds": (0,)}
    return BasisRecipe(10, D, convention, orthogonal=False, d_clip=5, **sigmas)


@pytest.fixture
def problem(monkeypatch):
    """Says how many of a seed's predictions after the last task are of class 0."""
    monkeypatch.setattr(sweep, "basis_recipe", recipe)
    counted = SimpleNamespace(source=None)
    counted.accuracies = lambda _index, predictions: np.array([[np.mean(predictions[-1] == 0)]])
    return counted


def test_settings_that_lead_to_the_same_run_are_equal(problem):
    values = {"D": [20, 60], "sigma": [1.0, 0.3], "ridge": [0.3, 0.1]}
    settings = list(runs_over(problem, RFF, "calibrated", {"neighbours": 3}, values))
    assert [(name, value) for name, value, _ in settings] == [
        (name, value) for name, tried in values.items() for value in tried
    ]
    default = Run(recipe(None, **RFF), replace(CALIBRATED, neighbours=3))
    assert [run == default for _, _, run in settings] == [False, True, True, False, True, False]


@pytest.mark.parametrize("name", ["calibrated", "released", "source_only"])
def test_runs_of_a_basis_predict_what_runs_of_their_own_predict(problem, name):
    seed = ShiftedDomains(0, n=105, noise=1.2).build(D=7, clip=True)
    chosen = [VARIANTS[name], replace(VARIANTS[name], weight_floor=0.5)]
    runs = [Run(recipe(None, **RFF), options) for options in chosen]
    for run, outcome in zip(runs, outcomes_of(problem, runs[1:], 0, seed, runs, recipes=[runs[0].recipe]), strict=True):
        alone = run_variant(seed.with_basis(run.recipe.draw(0)), run.options)
        assert outcome.accuracy == np.mean(alone[-1] == 0)
        assert bool(outcome.scores) == (run is runs[1] and name != "source_only")


@pytest.mark.parametrize("order", [1, -1])
def test_bases_share_features_and_neighbours_and_predict_as_on_their_own(problem, monkeypatch, order):
    """Of several D, some of them with fewer directions than features, and of several gammas."""
    found = []
    monkeypatch.setattr(problem, "accuracies", lambda _index, predictions: found.append(predictions) or np.ones((1, 1)))
    opened = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    settings = [(12, 1e-4), (40, 1e-4), (60, 1e-4), (50, 1e-5), (60, 0.3)]
    runs = [Run(recipe(None, D=D, sigma=sigma, convention="gamma"), CALIBRATED) for D, sigma in settings][::order]
    mapped = []
    monkeypatch.setattr(kernel_rows, "phases", lambda basis, x: mapped.append(len(x)) or phases(basis, x))
    for run in runs:
        outcomes_of(problem, [], 0, opened, [run], recipes=[one.recipe for one in runs])
    assert len(mapped) == 3 * (3 + 3 + 1)  # once per view of each task of source and target and of the test images
    for run, predictions in zip(runs, found, strict=True):
        alone = run_variant(opened.with_basis(run.recipe.draw(0)), CALIBRATED)
        for one, other in zip(predictions, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def test_bases_of_other_weights_of_joined_models_share_no_features(problem, monkeypatch):
    found = []
    monkeypatch.setattr(problem, "accuracies", lambda _index, predictions: found.append(predictions) or np.ones((1, 1)))
    opened = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    one = recipe(None, D=60, sigma=0.3, convention="gamma")
    recipes = [replace(one, widths=(6, 4), weights=((1.0, weight),)) for weight in (1.0, 0.0)]
    for each in recipes:
        outcomes_of(problem, [], 0, opened, [Run(each, CALIBRATED)], recipes=recipes)
    for each, predictions in zip(recipes, found, strict=True):
        alone = run_variant(opened.with_basis(each.draw(0)), CALIBRATED)
        np.testing.assert_array_equal(predictions[-1], alone[-1])
    assert any((one != other).any() for one, other in zip(*found, strict=True))  # the weights matter here
