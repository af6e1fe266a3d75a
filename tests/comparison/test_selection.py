"""Test the label-free scores of a seed and the choices that they make."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison import selection
from pipeline.comparison.referee_variants import adapted_classifiers
from pipeline.comparison.selection import SCORES, choices, label_free_scores
from pipeline.method.continual_metrics import log_likelihood
from pipeline.method.variants import VARIANTS
from reference import label_free_scores as oracle


@pytest.fixture(scope="module")
def seed():
    return ShiftedDomains(0, n=105, noise=1.2).build(D=60, clip=True)


def scored(seed, options):
    return label_free_scores(seed, options, adapted_classifiers(seed, options)[-1])


def test_a_ruined_setting_scores_below_the_default(seed):
    good, bad = VARIANTS["calibrated"], replace(VARIANTS["calibrated"], ridge=1e4, source_ridge=1e4)
    better, worse = scored(seed, good), scored(seed, bad)
    assert set(better) == set(SCORES)
    assert np.isfinite(list(better.values())).all()
    for score in ("information", "certainty", "branches_agree", "source_likelihood"):
        assert better[score] > worse[score], score


def test_the_agreement_of_a_single_view_is_undefined_and_chooses_nothing(seed):
    scores = scored(seed, VARIANTS["no_augmentation"])
    assert np.isnan(scores["views_agree"])
    chosen = choices({1: 0.5, 2: 0.6}, {1: scores, 2: scores})
    assert "views_agree" not in [choice.score for choice in chosen]


def test_equal_scores_choose_nothing_and_equal_accuracies_have_no_rank_correlation():
    accuracy, scores = {"a": 0.9, "b": 0.7}, {"a": {"s": 3.0}, "b": {"s": 1.0}}
    assert choices(accuracy, {key: {"s": 1.0} for key in accuracy}) == []
    (choice,) = choices(dict.fromkeys(scores, 0.5), scores)
    assert np.isnan(choice.rank_correlation)


def test_label_free_scores_agree_with_their_oracles_and_accept_zero_probabilities(monkeypatch):
    p, q = (np.random.default_rng(seed).dirichlet(np.ones(4), size=30) for seed in (0, 1))
    monkeypatch.setattr(selection, "BLOCK_IMAGES", 7)  # several blocks
    assert selection.neighbourhood_density(p) == pytest.approx(oracle.neighbourhood_density(p))
    assert selection.information(p) == pytest.approx(oracle.information(p))
    assert selection.certainty(p) == pytest.approx(-np.mean([oracle.entropy(x) for x in p]))
    assert selection.agreement([p, q, p]) == pytest.approx(oracle.agreement([p, q, p]))
    labels = np.arange(30) % 4
    expected = np.mean([np.log(row[c]) for row, c in zip(p, labels, strict=True)])
    assert log_likelihood(p, labels) == pytest.approx(expected)
    assert np.isfinite([selection.neighbourhood_density(np.eye(3)), selection.information(np.eye(3))]).all()
    assert np.isfinite(log_likelihood(np.eye(3), np.array([1, 1, 1])))
