"""The kept directions against the full path: equal labels and predictions, scores within the tolerance."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to
from pipeline.comparison import referee_variants
from pipeline.comparison.referee_variants import kernel_basis, run_variant
from pipeline.method import kernel_directions
from pipeline.method.backbone_weights import weighted
from pipeline.method.kernel_directions import directions_kept, in_all_features, in_kept_directions, reduced
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.random_fourier_features import deviations, draw_basis
from pipeline.method.source_model import fit_source
from pipeline.method.variants import CALIBRATED, PAPER, RELEASED
from pipeline.store.basis_file import Bases, BasisRecipe

D, GAMMA = 400, 1e-5


def unit_rows(n, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_directions_are_orthonormal_and_drop_the_stated_energy():
    basis = draw_basis(30, D, GAMMA, "gamma", 0, d_clip=10)
    narrow, x = reduced(basis, CALIBRATED).joint(), unit_rows(500, 40)
    Q = narrow.directions.Q
    assert Q.shape == (D, 41) == (D, narrow.width)
    np.testing.assert_allclose(Q.T @ Q, np.eye(41), atol=2e-6)
    full, coordinates = deviations(basis.joint(), x), deviations(narrow, x)
    np.testing.assert_allclose(coordinates, full @ Q, atol=1e-8)
    dropped = ((full - coordinates @ Q.T) ** 2).sum(axis=1).mean()
    assert dropped == pytest.approx(2 * GAMMA**2, rel=0.3)
    # the pivot is in their span
    np.testing.assert_allclose(Q @ (Q.T @ basis.pivot), basis.pivot, atol=1e-6)
    Q = reduced(weighted(draw_basis(40, D, GAMMA, "gamma", 0), (30, 10), (1.0, 0.0)), CALIBRATED).directions.Q
    np.testing.assert_allclose(Q.T @ Q, np.eye(41), atol=2e-6)  # also with a joined model of weight 0


@pytest.mark.parametrize(
    "options",
    [PAPER, RELEASED]
    + [
        replace(CALIBRATED, **change)
        for change in ({"ridge": 0.0}, {"source_ridge": 1e-3}, {"shrinkage": "oas"}, {"arithmetic": "float64"})
    ],
)
def test_all_directions_are_kept_under_options_that_need_them(options):
    assert directions_kept(40, D, GAMMA, options) == D


def test_few_directions_are_kept_for_many_features_and_a_small_gamma():
    assert directions_kept(40, D, GAMMA, CALIBRATED) == 41
    assert directions_kept(768 + 512, 6000, 1e-4, CALIBRATED) == 1281  # the published setting
    assert directions_kept(40, D, 0.01, CALIBRATED) == D
    assert directions_kept(300, D, GAMMA, CALIBRATED) == D


def final_scores(seed, basis, options):
    """Return the labels of all tasks and the centred scores (n, C) of the test rows after the last."""
    test, adapted = seed.target.test, adapted_to(seed.with_basis(basis), options)
    classifier = adapted[-1].classifier

    def scores_under(basis, classifier):
        rows = kernel_rows(basis, test, options.clip_in_kernel)
        return classifier.scores(rows.deviations("original", np.arange(len(test))))

    scores = scores_under(basis, classifier)
    lifted_scores = scores_under(replace(basis, directions=None), in_all_features(basis, classifier))
    np.testing.assert_allclose(lifted_scores, scores, atol=1e-4 * scores.std())
    labels = np.concatenate([task.labels.label for task in adapted])
    return labels, scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gamma", [1e-6, 1e-5, 3e-5])
def test_labels_and_predictions_equal_the_full_path(monkeypatch, gamma, seed):
    basis = draw_basis(10, D, gamma, "gamma", seed, d_clip=5)
    problem = ShiftedDomains(seed, n=105, noise=1.2).build(D=D, clip=True).with_basis(basis)
    assert reduced(problem.basis, CALIBRATED).width < D
    labels, scores = final_scores(problem, problem.basis, CALIBRATED)
    reduced_labels, reduced_scores = final_scores(problem, reduced(problem.basis, CALIBRATED), CALIBRATED)
    np.testing.assert_array_equal(reduced_labels, labels)
    np.testing.assert_array_equal(reduced_scores.argmax(axis=1), scores.argmax(axis=1))
    tolerance = 5 * kernel_directions.estimated_loss(15, D, gamma, CALIBRATED) + 1e-4  # for float32
    assert np.abs(reduced_scores - scores).max() < tolerance * scores.std()
    reduced_run = run_variant(problem, CALIBRATED)
    monkeypatch.setattr(referee_variants, "reduced", lambda basis, options: basis)
    monkeypatch.setattr(referee_variants, "directions_kept", lambda d, D, gamma, options: D)
    full_run = run_variant(problem.with_basis(problem.basis), CALIBRATED)
    np.testing.assert_array_equal(reduced_run, full_run)


@pytest.mark.parametrize(("sigmas", "width"), [((1e-5, 1e-3), D), ((1e-5, 2e-5), 16)])
def test_all_seeds_keep_the_same_directions_in_the_stages_and_in_compare(sigmas, width):
    """With `rff.convention: median` each seed has its own gamma, and the largest decides."""
    recipe = BasisRecipe(10, D, "gamma", orthogonal=False, seeds=(0, 1), sigmas=sigmas, d_clip=5)
    drawn = [recipe.draw(index) for index in range(2)]
    bases = Bases(Path(), recipe, tuple(map(recipe.digest, drawn)))
    seed = ShiftedDomains(0, n=21).build(D=D, clip=True)
    for index, basis in enumerate(drawn):
        assert bases.reduced(index, CALIBRATED).width == bases.width(CALIBRATED) == width
        assert kernel_basis(seed.with_basis(basis), CALIBRATED).width == width
        assert kernel_basis(seed.with_basis(recipe.draw(index).nested(D)), CALIBRATED).width == width


def test_converting_a_classifier_to_all_features_and_back_changes_nothing():
    basis = reduced(draw_basis(30, D, GAMMA, "gamma", 0), CALIBRATED)
    (model,) = fit_source(basis, {"original": unit_rows(60, 30)}, np.arange(60) % 2, [np.arange(2)], CALIBRATED)
    W = in_kept_directions(basis, in_all_features(basis, model.classifier)).W
    np.testing.assert_allclose(W, model.classifier.W, atol=1e-5 * np.abs(W).max())
