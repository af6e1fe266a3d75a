"""Scores of one seed with known answers, and pseudo-label quality computed by hand."""

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, sources_of
from pipeline.method.adaptation import Referee
from pipeline.method.evaluation import pseudo_label_quality, score
from pipeline.method.fusion import PseudoLabels
from pipeline.method.rows import BLOCK_IMAGES, reduce_locally, row_ranges
from pipeline.method.variants import VARIANTS


def test_references_and_the_calibration_of_each_branch_are_scored():
    domains, options = ShiftedDomains(0, (2, 2), noise=0.3, shift=0.0), VARIANTS["no_clip"]
    domains.test_clip = np.roll(domains.texts, 1, axis=0)[domains.test_y]  # CLIP is always wrong
    seed = domains.build(D=60)
    sources = sources_of(seed, options)
    classifiers = [model.classifier for model in sources]
    referee = Referee(seed.basis, options, 10.0)
    scored = score(referee, seed.target.test, domains.test_y, domains.test_tasks, sources, classifiers)
    assert scored.references["source"][1].tolist() == [1.0, 1.0]
    assert scored.references["clip"][1].tolist() == [0.0, 0.0]
    assert np.isnan(scored.accuracy[0, 1])
    assert set(scored.ece) == {"klda", "clip", "fused"}
    assert scored.ece["clip"] > 0.5  # confident and wrong
    assert scored.ece["klda"] < 0.2


def test_scores_do_not_depend_on_splitting_the_rows():
    domains, options = ShiftedDomains(0, tests=BLOCK_IMAGES + 9), VARIANTS["no_clip"]
    seed = domains.build()
    sources = sources_of(seed, options)
    models = (domains.test_y, domains.test_tasks, sources, [model.classifier for model in sources])

    def reduce_halves(function, shared, rows, combine):
        return combine(*(function(shared, rows.take(index)) for index in row_ranges(len(rows), 2)))

    whole, halves = (
        score(Referee(seed.basis, options, 1.0, reduction), seed.target.test, *models)
        for reduction in (reduce_locally, reduce_halves)
    )
    np.testing.assert_array_equal(whole.branches["fused"].label, halves.branches["fused"].label)
    assert whole.ece == halves.ece


def test_pseudo_label_quality_counts_only_kept_labels():
    index, label, kept = np.arange(4), np.array([0, 1, 1, 0]), np.array([True, True, False, True])
    labels = PseudoLabels(label, np.full((4, 2), 0.5), np.ones(4), kept)
    assert pseudo_label_quality(labels, np.array([0, 1, 0, 1]), index) == (pytest.approx(2 / 3), 0.75)
    none_kept = PseudoLabels(label, labels.fused, labels.weight, np.zeros(4, dtype=bool))
    accuracy, fraction = pseudo_label_quality(none_kept, label, index)
    assert np.isnan(accuracy)
    assert fraction == 0.0
