"""The fast path of the rounds against the general one, and the ensemble against its members."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.method import relabelling
from pipeline.method.adaptation import run_problem
from pipeline.method.random_fourier_features import Basis, draw_basis, draw_ensemble
from pipeline.method.task_features import TaskFeatures
from pipeline.method.variants import variant
from shifted_problem import SCALE, Problem

BASE = replace(variant("calibrated"), arithmetic="float64")
CASES = {
    "calibrated": BASE,
    "one round": replace(BASE, rounds=1),
    "no round": replace(BASE, rounds=0),
    "votes": replace(BASE, vote_views=True),
    "no prior": replace(BASE, prior_count=0.0),
    "no weights": replace(BASE, use_weights=False),
    "priors": replace(BASE, class_priors="counted"),
    "own covariance": replace(BASE, source_covariance=False, ridge=0.05),
    "original alone": replace(BASE, views=("original",)),
    "mahalanobis": replace(BASE, logits="mahalanobis", temperature=3.0),
}


def both_ways(problem, options, monkeypatch):
    ways = []
    for fast in (True, False):
        monkeypatch.setattr(relabelling, "cheaper", lambda *_, fast=fast: fast)
        sources = problem.sources(options)
        ways.append(run_problem(problem.basis, problem.tasks(), sources, options, SCALE))
    return ways


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_rounds_in_row_space_are_the_general_rounds(monkeypatch, case, seed):
    fast, general = both_ways(Problem(seed, D=24, n=70), CASES[case], monkeypatch)
    for a, b in zip(fast, general, strict=True):
        np.testing.assert_array_equal(a.labels.label, b.labels.label)
        np.testing.assert_allclose(a.labels.fused, b.labels.fused, atol=1e-8)
        np.testing.assert_allclose(a.labels.weight, b.labels.weight, atol=1e-8)
        scale = np.abs(b.classifier.W).max()
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=1e-7 * scale)
        np.testing.assert_allclose(a.classifier.b, b.classifier.b, rtol=1e-7)


def test_rounds_in_row_space_know_an_empty_class(monkeypatch):
    options = replace(CASES["no prior"], rounds=2)
    problem = Problem(3, D=24, n=70)
    problem.cosines[:, 1] = -1.0  # CLIP never says class 1 …
    gone = problem.y == 1
    for x in problem.views.values():
        x[gone] = x[problem.y == 0][: gone.sum()]  # … and no image looks like it
    fast, general = both_ways(problem, options, monkeypatch)
    assert 1 not in general[0].labels.label
    for a, b in zip(fast, general, strict=True):
        scale = np.abs(b.classifier.W).max()
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=1e-7 * scale)


def test_the_choice_is_by_arithmetic():
    assert relabelling.cheaper(400, 6000, 3)
    assert not relabelling.cheaper(6000, 6000, 3)
    assert not relabelling.cheaper(10, 6000, 0)


@pytest.mark.parametrize("fast", [True, False])
def test_an_ensemble_averages_the_scores_of_its_members(monkeypatch, fast):
    monkeypatch.setattr(relabelling, "cheaper", lambda *_: fast)
    problem = Problem(4)
    options = replace(BASE, rounds=0)
    joint = draw_ensemble(10, 16, 1.0, "bandwidth", 4, members=3)
    assert (joint.D, joint.members) == (48, 3)
    np.testing.assert_array_equal(
        joint.member(0).omega, draw_basis(10, 16, 1.0, "bandwidth", 4).omega
    )
    problem.basis = joint
    together = problem.sources(options)[-1].classifier
    x = problem.test_views["original"]
    rows = np.arange(len(x))
    alone = []
    for m in range(3):
        problem.basis = joint.member(m)
        classifier = problem.sources(options)[-1].classifier
        alone.append(
            classifier.scores(TaskFeatures(problem.basis, {"original": x}).of("original", rows))
        )
    scores = together.scores(TaskFeatures(joint, {"original": x}).of("original", rows))
    np.testing.assert_allclose(scores, np.mean(alone, axis=0), atol=1e-6)


def test_an_ensemble_adapts_in_both_ways_alike(monkeypatch):
    problem = Problem(5, n=70)
    problem.basis = draw_ensemble(10, 20, 1.0, "bandwidth", 5, members=2)
    fast, general = both_ways(problem, BASE, monkeypatch)
    for a, b in zip(fast, general, strict=True):
        assert a.classifier.W.shape == (40, len(a.classifier.b))
        scale = np.abs(b.classifier.W).max()
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=1e-7 * scale)


def test_members_must_be_of_one_width():
    omega, beta = np.zeros((2, 5), np.float32), np.zeros(5, np.float32)
    with pytest.raises(Exception, match="5 columns are not 2 bases"):
        Basis(omega, beta, 1.0, members=2)
