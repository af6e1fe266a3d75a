"""The fast path of the rounds against the general one."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.method import relabelling
from pipeline.method.adaptation import adapt_tasks
from pipeline.method.referee import Referee
from pipeline.method.variants import VARIANTS
from shifted_problem import SCALE, Problem

BASE = replace(VARIANTS["calibrated"], arithmetic="float64")
CASES = {
    "calibrated": BASE,
    "one round": replace(BASE, rounds=1),
    "no round": replace(BASE, rounds=0),
    "no votes": replace(BASE, vote_views=False),
    "hard labels": replace(BASE, responsibilities="hard"),
    "no neighbours": replace(BASE, neighbours=0),
    "no prior": replace(BASE, prior_count=0.0),
    "no weights": replace(BASE, use_weights=False),
    "priors": replace(BASE, class_priors="counted"),
    "own covariance": replace(BASE, source_covariance=False, ridge=0.05),
    "original alone": replace(BASE, views=("original",)),
    "mahalanobis": replace(BASE, logits="mahalanobis"),
}


def both_ways(problem, options, monkeypatch):
    ways = []
    for fast in (True, False):
        monkeypatch.setattr(relabelling, "cheaper", lambda *_, fast=fast: fast)
        sources = problem.sources(options)
        ways.append(adapt_tasks(Referee(problem.basis, options, SCALE), problem.tasks(), sources))
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


def test_rounds_in_row_space_handle_an_empty_class(monkeypatch):
    options = replace(CASES["no prior"], rounds=2)
    problem = Problem(3, D=24, n=70)
    problem.cosines[:, 1] = -1.0  # CLIP never prefers class 1 …
    gone = problem.y == 1
    for x in problem.views.values():
        x[gone] = x[problem.y == 0][: gone.sum()]  # … and no image looks like it
    fast, general = both_ways(problem, options, monkeypatch)
    assert 1 not in general[0].labels.label
    for a, b in zip(fast, general, strict=True):
        scale = np.abs(b.classifier.W).max()
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=1e-7 * scale)


def test_row_space_is_chosen_where_it_takes_fewer_multiplications():
    assert relabelling.cheaper(400, 6000, 3)
    assert not relabelling.cheaper(6000, 6000, 3)
    assert not relabelling.cheaper(10, 6000, 0)
