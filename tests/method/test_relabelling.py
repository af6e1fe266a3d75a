"""The fast path of relabelling against the general one."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to, sources_of
from pipeline.errors import InputError
from pipeline.method import relabelling
from pipeline.method.adaptation import Referee, adapt_task
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import CALIBRATED

CASES = {
    "calibrated": {},
    "one round": {"rounds": 1},
    "no round": {"rounds": 0},
    "no votes": {"vote_views": False},
    "hard labels": {"responsibilities": "hard"},
    "no neighbours": {"neighbours": 0},
    "no prior": {"prior_count": 0.0},
    # a large ridge keeps labels uncertain, so that the mean of an empty class matters
    "hard labels, no prior": {
        "responsibilities": "hard",
        "prior_count": 0.0,
        "class_priors": "counted",
        "ridge": 100.0,
        "source_ridge": 1.0,
    },
    "no weights": {"use_weights": False},
    "priors": {"class_priors": "counted"},
    "own covariance": {"source_covariance": False, "ridge": 0.05},
    "no ridge": {"source_covariance": False, "ridge": 0.0},  # without the task, the matrix to factor is zero
    "original alone": {"views": ("original",)},
    "mahalanobis": {"logits": "mahalanobis"},
}


def assert_equal_on_both_paths(domains, case, monkeypatch):
    paths = []
    for fast in (True, False):
        monkeypatch.setattr(relabelling, "row_space_is_cheaper", lambda *_, fast=fast: fast)
        paths.append(adapted_to(domains.build(D=24), replace(CALIBRATED, arithmetic="float64", **CASES[case])))
    for a, b in zip(*paths, strict=True):
        np.testing.assert_array_equal(a.labels.label, b.labels.label)
        np.testing.assert_allclose(a.labels.fused, b.labels.fused, atol=1e-8)
        np.testing.assert_allclose(a.labels.weight, b.labels.weight, atol=1e-8)
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=1e-7 * np.abs(b.classifier.W).max())
        np.testing.assert_allclose(a.classifier.b, b.classifier.b, rtol=1e-7)
    return paths[0]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_rounds_in_row_space_equal_the_general_path(monkeypatch, case, seed):
    assert_equal_on_both_paths(ShiftedDomains(seed, n=70), case, monkeypatch)


@pytest.mark.parametrize("case", ["no prior", "hard labels, no prior"])
def test_rounds_in_row_space_handle_an_empty_class(monkeypatch, case):
    domains = ShiftedDomains(3, n=70)
    domains.texts[1] = -domains.texts[0]  # CLIP never prefers class 1
    members = domains.y == 1
    for rows in (domains.x, domains.clip):
        rows[members] = rows[domains.y == 0][: members.sum()]  # and no image looks like it
    first, *_ = assert_equal_on_both_paths(domains, case, monkeypatch)
    assert 1 not in first.labels.label


def test_row_space_is_chosen_if_it_takes_fewer_multiplications():
    assert relabelling.row_space_is_cheaper(400, 6000, 3)
    assert not relabelling.row_space_is_cheaper(6000, 6000, 3)
    assert not relabelling.row_space_is_cheaper(10, 6000, 0)


def test_a_returning_class_takes_the_general_path(monkeypatch):
    seed, options = ShiftedDomains(1, n=70).build(D=24), replace(CALIBRATED, arithmetic="float64")
    source, referee = sources_of(seed, options)[0], Referee(seed.basis, options, seed.target.clip_scale)
    halves = [seed.target.tasks[0].take(index) for index in np.array_split(np.arange(len(seed.target.tasks[0])), 2)]
    paths = []
    for fast in (True, False):
        monkeypatch.setattr(relabelling, "row_space_is_cheaper", lambda *_, fast=fast: fast)
        statistics = empty_statistics(seed.basis, options)
        for half in halves:
            statistics, adapted = adapt_task(referee, half, source, statistics)
        paths.append(adapted)
    np.testing.assert_allclose(paths[0].labels.fused, paths[1].labels.fused, atol=1e-8)
    np.testing.assert_allclose(paths[0].classifier.b, paths[1].classifier.b, rtol=1e-7)


@pytest.mark.parametrize("fast", [True, False])
def test_copies_of_one_image_are_refused_on_both_paths(monkeypatch, fast):
    domains = ShiftedDomains(0, n=70)
    domains.x[:], domains.clip[:] = domains.x[0], domains.clip[0]
    seed, options = domains.build(D=24), replace(CALIBRATED, source_covariance=False, views=("original",))
    monkeypatch.setattr(relabelling, "row_space_is_cheaper", lambda *_: fast)
    with pytest.raises(InputError, match="ridge_kind: absolute"):
        adapted_to(seed, options)
