"""The fast path of the rounds against the general one."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to
from pipeline.method import relabelling
from pipeline.method.variants import CALIBRATED

CASES = {
    "calibrated": {},
    "one round": {"rounds": 1},
    "no round": {"rounds": 0},
    "no votes": {"vote_views": False},
    "hard labels": {"responsibilities": "hard"},
    "no neighbours": {"neighbours": 0},
    "no prior": {"prior_count": 0.0},
    "no weights": {"use_weights": False},
    "priors": {"class_priors": "counted"},
    "own covariance": {"source_covariance": False, "ridge": 0.05},
    "original alone": {"views": ("original",)},
    "mahalanobis": {"logits": "mahalanobis"},
}


def assert_both_ways_are_the_same(domains, case, monkeypatch):
    ways = []
    for fast in (True, False):
        monkeypatch.setattr(relabelling, "cheaper", lambda *_, fast=fast: fast)
        ways.append(adapted_to(domains.build(D=24), replace(CALIBRATED, arithmetic="float64", **CASES[case])))
    for a, b in zip(*ways, strict=True):
        np.testing.assert_array_equal(a.labels.label, b.labels.label)
        np.testing.assert_allclose(a.labels.fused, b.labels.fused, atol=1e-8)
        np.testing.assert_allclose(a.labels.weight, b.labels.weight, atol=1e-8)
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=1e-7 * np.abs(b.classifier.W).max())
        np.testing.assert_allclose(a.classifier.b, b.classifier.b, rtol=1e-7)
    return ways[0]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_rounds_in_row_space_are_the_general_rounds(monkeypatch, case, seed):
    assert_both_ways_are_the_same(ShiftedDomains(seed, n=70), case, monkeypatch)


def test_rounds_in_row_space_handle_an_empty_class(monkeypatch):
    domains = ShiftedDomains(3, n=70)
    domains.texts[1] = -domains.texts[0]  # CLIP never prefers class 1 …
    gone = domains.y == 1
    for rows in (domains.x, domains.clip):
        rows[gone] = rows[domains.y == 0][: gone.sum()]  # … and no image looks like it
    first, *_ = assert_both_ways_are_the_same(domains, "no prior", monkeypatch)
    assert 1 not in first.labels.label
