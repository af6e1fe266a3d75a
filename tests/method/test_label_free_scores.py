"""Label-free scores against their oracles."""

import numpy as np
import pytest

from pipeline.method import label_free_scores as scores
from reference import label_free_scores as oracle


def test_they_are_the_oracles_and_a_probability_of_zero_is_no_nan(monkeypatch):
    p, q = (np.random.default_rng(seed).dirichlet(np.ones(4), size=30) for seed in (0, 1))
    monkeypatch.setattr(scores, "BLOCK_IMAGES", 7)  # several blocks
    assert scores.neighbourhood_density(p) == pytest.approx(oracle.neighbourhood_density(p))
    assert scores.information(p) == pytest.approx(oracle.information(p))
    assert scores.certainty(p) == pytest.approx(-np.mean([oracle.entropy(x) for x in p]))
    assert scores.agreement([p, q, p]) == pytest.approx(oracle.agreement([p, q, p]))
    labels = np.arange(30) % 4
    expected = np.mean([np.log(row[c]) for row, c in zip(p, labels, strict=True)])
    assert scores.log_likelihood(p, labels) == pytest.approx(expected)
    assert np.isfinite([scores.neighbourhood_density(np.eye(3)), scores.information(np.eye(3))]).all()
    assert np.isfinite(scores.log_likelihood(np.eye(3), np.array([1, 1, 1])))
