"""What methods and runs of a sweep share on a seed changes no prediction, in whatever order they run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison import sweep
from pipeline.comparison.referee_variants import run_variant
from pipeline.comparison.selection import source_likelihood
from pipeline.comparison.sweep import Run, outcomes_of, runs_over
from pipeline.method import kernel_rows
from pipeline.method.kernel_rows import not_shared
from pipeline.method.random_fourier_features import draw_basis, phases
from pipeline.method.variants import CALIBRATED, VARIANTS
from pipeline.problem.seed import Seed
from pipeline.store.basis_file import BasisRecipe

# they differ in the features, in the source fit, in views and in what is estimated of the target
OPTIONS = {
    **VARIANTS,
    "another ridge": replace(CALIBRATED, ridge=1.0),
    "another weight of CLIP": replace(CALIBRATED, clip_in_kernel=1.0),
    "float64": replace(CALIBRATED, arithmetic="float64"),
}


def seed():
    built = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    return built.with_basis(draw_basis(10, 60, 1e-4, "gamma", 0, d_clip=5))  # 16 directions count


@pytest.fixture(scope="module")
def alone():
    """Predictions and likelihood of each variant on a seed of its own, where nothing is shared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Seed, "shared", lambda _self, key, make: not_shared(key, make))
        return {
            name: (run_variant(seed(), options), source_likelihood(seed(), options))
            for name, options in OPTIONS.items()
        }


@pytest.mark.parametrize("order", [1, -1])
def test_sharing_gives_what_not_sharing_gives(alone, order):
    together = seed()
    for name in list(OPTIONS)[::order]:
        expected, likelihood = alone[name]
        assert source_likelihood(together, OPTIONS[name]) == likelihood, name
        np.testing.assert_array_equal(run_variant(together, OPTIONS[name]), expected, err_msg=name)
    labels = [np.concatenate(predicted).tobytes() for predicted, _ in alone.values()]
    assert len(set(labels)) > len(OPTIONS) // 2  # or the variants could be mistaken for one another


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
    runs = runs_over(problem, RFF, "calibrated", {"neighbours": 3}, values)
    assert list(runs) == [(name, value) for name, tried in values.items() for value in tried]
    default = Run(recipe(None, **RFF), replace(CALIBRATED, neighbours=3))
    assert [run == default for run in runs.values()] == [False, True, True, False, True, False]


@pytest.mark.parametrize("name", ["calibrated", "released", "source_only"])
def test_runs_of_a_basis_predict_what_runs_of_their_own_predict(problem, name):
    seed = ShiftedDomains(0, n=105, noise=1.2).build(D=7, clip=True)
    chosen = [VARIANTS[name], replace(VARIANTS[name], weight_floor=0.5)]
    runs = [Run(recipe(None, **RFF), options) for options in chosen]
    for run, outcome in zip(runs, outcomes_of(problem, runs[1:], 0, seed, runs, recipes=[runs[0].recipe]), strict=True):
        alone = run_variant(seed.with_basis(run.recipe.draw(0)), run.options)
        assert outcome.accuracy == np.mean(alone[-1] == 0)
        assert bool(outcome.scores) == (run is runs[1] and name != "source_only")


def predictions_of_a_sweep(problem, opened, recipes):
    """Return what `calibrated` predicts under each of the bases, which share what they can."""
    found = []
    problem.accuracies = lambda _index, predictions: found.append(predictions) or np.ones((1, 1))
    for one in recipes:
        outcomes_of(problem, [], 0, opened, [Run(one, CALIBRATED)], recipes=recipes)
    return found


def assert_same_as_alone(found, opened, recipes):
    for one, predictions in zip(recipes, found, strict=True):
        np.testing.assert_array_equal(predictions, run_variant(opened.with_basis(one.draw(0)), CALIBRATED))


@pytest.mark.parametrize("order", [1, -1])
def test_bases_share_features_and_neighbours_and_predict_as_on_their_own(problem, monkeypatch, order):
    """Of several D, some of them with fewer directions than features, and of several gammas."""
    opened = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    settings = [(12, 1e-4), (40, 1e-4), (60, 1e-4), (50, 1e-5), (60, 0.3)]
    recipes = [recipe(None, D=D, sigma=sigma, convention="gamma") for D, sigma in settings][::order]
    mapped = []
    monkeypatch.setattr(kernel_rows, "phases", lambda basis, x: mapped.append(len(x)) or phases(basis, x))
    found = predictions_of_a_sweep(problem, opened, recipes)
    assert len(mapped) == 3 * (3 + 3 + 1)  # once per view of each task of source and target and of the test images
    assert_same_as_alone(found, opened, recipes)


def test_bases_of_other_weights_of_joined_models_share_no_features(problem):
    opened = ShiftedDomains(0, n=105, noise=2.0).build(clip=True)
    one = recipe(None, D=60, sigma=0.3, convention="gamma")
    recipes = [replace(one, widths=(6, 4), weights=((1.0, weight),)) for weight in (1.0, 0.0)]
    found = predictions_of_a_sweep(problem, opened, recipes)
    assert_same_as_alone(found, opened, recipes)
    assert any((one != other).any() for one, other in zip(*found, strict=True))  # the weights matter here
