"""Scoring one seed: a problem whose answers are known, and the quality of pseudo-labels by hand."""

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, sources_of
from pipeline.method.adaptation import Referee
from pipeline.method.evaluation import pseudo_label_quality, score
from pipeline.method.fusion import PseudoLabels
from pipeline.method.rows import BLOCK_IMAGES, reduce_here, row_ranges
from pipeline.method.variants import VARIANTS


def test_references_are_scored_beside_the_method_and_calibration_is_that_of_each_branch():
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
    assert scored.ece["clip"] > 0.5  # sure and wrong
    assert scored.ece["klda"] < 0.2


def test_scores_of_ranges_of_rows_are_those_of_all_rows():
    domains, options = ShiftedDomains(0, tests=BLOCK_IMAGES + 9), VARIANTS["no_clip"]
    seed = domains.build()
    sources = sources_of(seed, options)
    models = (domains.test_y, domains.test_tasks, sources, [model.classifier for model in sources])

    def in_two(function, shared, rows, combine):
        return combine(*(function(shared, rows.take(index)) for index in row_ranges(len(rows), 2)))

    here, apart = (
        score(Referee(seed.basis, options, 1.0, by), seed.target.test, *models) for by in (reduce_here, in_two)
    )
    np.testing.assert_array_equal(here.branches["fused"].label, apart.branches["fused"].label)
    assert here.ece == apart.ece


def test_quality_of_pseudo_labels_counts_the_kept_ones():
    everything, label, kept = np.arange(4), np.array([0, 1, 1, 0]), np.array([True, True, False, True])
    labels = PseudoLabels(label, np.full((4, 2), 0.5), np.ones(4), kept)
    assert pseudo_label_quality(labels, np.array([0, 1, 0, 1]), everything) == (pytest.approx(2 / 3), 0.75)
    nothing = PseudoLabels(label, labels.fused, labels.weight, np.zeros(4, dtype=bool))
    accuracy, fraction = pseudo_label_quality(nothing, label, everything)
    assert np.isnan(accuracy)
    assert fraction == 0.0
