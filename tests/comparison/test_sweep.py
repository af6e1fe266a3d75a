"""A sweep gives what single runs give, with the shared work done once."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.comparison import sweep
from pipeline.comparison.problem import SeedProblem, SourceRows, TestRows
from pipeline.comparison.referee_variants import run_variant
from pipeline.comparison.sweep import predictions_over_D, predictions_over_sigma
from pipeline.method import source_model
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.variants import variant
from shifted_problem import SCALE, Problem

D, WIDTHS = 60, [7, 20, 60]


@pytest.fixture(scope="module")
def problem():
    made = Problem(0, D=D, n=105)
    rng = np.random.default_rng(1)
    basis = draw_basis(10, D, 1.0, "bandwidth", 0, d_clip=5)
    return SeedProblem(
        basis=basis,
        source=SourceRows(made.source_views, made.source_y, rng.normal(size=(105, 5))),
        target=[
            replace(task, clip=rng.normal(size=(len(task.cosines), 5))) for task in made.tasks()
        ],
        test=TestRows(made.test_views, made.test_cosines, rng.normal(size=(35, 5))),
        clip_scale=SCALE,
        seed=0,
    )


@pytest.mark.parametrize("name", ["calibrated", "no_clip", "released", "source_only"])
def test_every_D_predicts_what_a_run_of_its_own_predicts(problem, name):
    options = variant(name)
    if options.statistics == "exact":
        options = replace(options, arithmetic="float64")
    swept = predictions_over_D(problem, WIDTHS, options)
    assert list(swept) == WIDTHS
    for width in WIDTHS:
        alone = replace(problem, basis=problem.basis.nested(width), _shared={})
        for a, b in zip(swept[width], run_variant(alone, options), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_source_is_read_once_for_all_D(problem, monkeypatch):
    calls = []
    original = source_model.source_moments
    monkeypatch.setattr(
        sweep, "source_moments", lambda *a, **k: calls.append(1) or original(*a, **k)
    )
    predictions_over_D(problem, WIDTHS, variant("calibrated"))
    assert len(calls) == 1


def test_every_sigma_predicts_what_a_run_of_its_own_predicts(problem):
    def basis_of(sigma):
        return draw_basis(10, D, sigma, "bandwidth", 0, d_clip=5)

    options = variant("calibrated")
    swept = predictions_over_sigma(problem, [0.3, 1.0, 5.0], options, basis_of)
    for sigma, predicted in swept.items():
        alone = replace(problem, basis=basis_of(sigma), _shared={})
        for a, b in zip(predicted, run_variant(alone, options), strict=True):
            np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(swept[0.3], swept[5.0], strict=True))
