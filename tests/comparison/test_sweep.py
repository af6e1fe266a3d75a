"""Sweeps over D and sigma predict what separate runs predict, and read the source once."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison import sweep
from pipeline.comparison.referee_variants import run_variant
from pipeline.comparison.sweep import predictions_over_D, predictions_over_sigma
from pipeline.method import source_model
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.variants import variant

D, WIDTHS = 60, [7, 20, 60]


@pytest.fixture(scope="module")
def seed():
    return ShiftedDomains(0, n=105, noise=1.2).build(D=D, clip=True)


@pytest.mark.parametrize("name", ["calibrated", "no_clip", "released", "source_only"])
def test_every_D_predicts_what_a_run_of_its_own_predicts(seed, name):
    options = variant(name)
    if options.statistics == "exact":
        options = replace(options, arithmetic="float64")
    predictions = predictions_over_D(seed, WIDTHS, options)
    assert list(predictions) == WIDTHS
    for width in WIDTHS:
        alone = run_variant(seed.with_basis(seed.basis.nested(width)), options)
        np.testing.assert_array_equal(predictions[width], alone)


def test_the_source_is_read_once_for_all_D(seed, monkeypatch):
    calls = []
    original = source_model.source_statistics
    monkeypatch.setattr(
        sweep, "source_statistics", lambda *a, **k: calls.append(1) or original(*a, **k)
    )
    predictions_over_D(seed, WIDTHS, variant("calibrated"))
    assert len(calls) == 1


def test_every_sigma_predicts_what_a_run_of_its_own_predicts(seed):
    def draw(sigma):
        return draw_basis(10, D, sigma, "bandwidth", 0, d_clip=5)

    options = variant("calibrated")
    predictions = predictions_over_sigma(seed, [0.3, 1.0, 5.0], options, draw)
    for sigma, predicted in predictions.items():
        alone = run_variant(seed.with_basis(draw(sigma)), options)
        np.testing.assert_array_equal(predicted, alone)
    assert (np.array(predictions[0.3]) != np.array(predictions[5.0])).any()
