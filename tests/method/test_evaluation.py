"""Scoring one seed: a problem whose answers are known, and the quality of pseudo-labels by hand."""

import numpy as np
import pytest

from pipeline.method.adaptation import PseudoLabels, Referee
from pipeline.method.evaluation import pseudo_label_quality, score
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rows import UnlabelledRows
from pipeline.method.source_model import fit_source
from pipeline.method.variants import MethodOptions
from pipeline.method.zero_shot import cosines


def test_references_are_scored_beside_the_method_and_calibration_is_that_of_each_branch():
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    centres = 3 * np.eye(4, 6)
    x = generator.standard_normal((120, 6)) * 0.3 + centres[labels]
    basis = draw_basis(6, 60, 0.5, "gamma", 0)
    tasks, options = [np.array([0, 1]), np.array([2, 3])], MethodOptions(views=("original",))
    source = list(fit_source(basis, {"original": x}, labels, tasks, options))
    texts = np.roll(centres, 1, axis=0)  # CLIP is always wrong: every text names the next class
    rows = UnlabelledRows({"original": x}, cosines(x, texts))
    classifiers = [model.classifier for model in source]
    scored = score(Referee(basis, options, 10.0), rows, labels, labels // 2, source, classifiers)
    assert scored.references["source"][1].tolist() == [1.0, 1.0]
    assert scored.references["clip"][1].tolist() == [0.0, 0.0]
    assert np.isnan(scored.accuracy[0, 1])
    assert set(scored.ece) == {"klda", "clip", "fused"}
    assert scored.ece["clip"] > 0.5  # sure and wrong
    assert scored.ece["klda"] < 0.2


def test_quality_of_pseudo_labels_counts_the_kept_ones():
    label, kept = np.array([0, 1, 1, 0]), np.array([True, True, False, True])
    labels = PseudoLabels(label, np.full((4, 2), 0.5), np.ones(4), kept)
    assert pseudo_label_quality(labels, np.array([0, 1, 0, 1])) == (pytest.approx(2 / 3), 0.75)
    nothing = PseudoLabels(label, labels.fused, labels.weight, np.zeros(4, dtype=bool))
    accuracy, fraction = pseudo_label_quality(nothing, label)
    assert np.isnan(accuracy)
    assert fraction == 0.0
