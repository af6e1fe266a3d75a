"""The default variant end to end, from embeddings to predictions, against a naive float64 oracle."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import VIEWS, ShiftedDomains, adapted_to, predicted, sources_of
from pipeline.method import relabelling
from pipeline.method.adaptation import Referee, pseudo_label
from pipeline.method.variants import CALIBRATED, VARIANTS
from reference import calibrated as oracle
from reference.random_fourier_features import feature

TOLERANCE = 2e-4  # for probabilities; features and their products are float32


def adapted_and_predicted(seed, options):
    """Return the first labels, the final labels and the test prediction after each task."""
    sources, referee = sources_of(seed, options), Referee(seed.basis, options, seed.target.clip_scale)
    first = [pseudo_label(referee, task, model) for task, model in zip(seed.target.tasks, sources, strict=True)]
    adapted = adapted_to(seed, options, sources)
    predictions = predicted(seed, options, sources, [task.classifier for task in adapted])
    return zip(first, [task.labels for task in adapted], predictions, strict=True)


def expected(seed, threshold):
    """Yield the corresponding results of the oracle."""
    omega = np.vstack([seed.basis.omega, seed.basis.clip_omega])

    def z(rows):  # the oracle's features by view
        joint = ([oracle.joint_row(g, c) for g, c in zip(rows.views[v], rows.clip, strict=True)] for v in VIEWS)
        return [[feature(row, omega, seed.basis.beta) for row in images] for images in joint]

    model, test_z, source_z, source_y = oracle.Target(), z(seed.target.test), z(seed.source), seed.source.labels
    for images in seed.target.tasks:
        K = int(images.classes.max()) + 1
        seen = np.flatnonzero(source_y < K)
        source_model = oracle.Source([(view[i], source_y[i]) for view in source_z for i in seen], K)
        task = (images.classes.tolist(), z(images), images.cosines, images.views["original"])
        first = oracle.first_label(task, source_model, seed.target.clip_scale)
        *final, after = model.adapt(source_model, task, seed.target.clip_scale, threshold)
        yield first, final, oracle.predict(after, test_z)


@pytest.mark.parametrize("threshold", [0.0, 0.7])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(("n", "D", "in_row_space"), [(42, 90, 3), (84, 20, 0)])
def test_calibrated_equals_the_naive_oracle(monkeypatch, n, D, in_row_space, number, threshold):
    calls, row_space = [], relabelling.row_space
    monkeypatch.setattr(relabelling, "row_space", lambda *a, **k: calls.append(1) or row_space(*a, **k))
    seed = ShiftedDomains(number, (3, 2, 2), n=n, tests=21, noise=3.0).build(D=D, clip=True)
    changed = moved = 0
    results = adapted_and_predicted(seed, replace(CALIBRATED, threshold=threshold))
    for (first, final, prediction), (*naive, probabilities) in zip(results, expected(seed, threshold), strict=True):
        for labels, (label, weight, fused) in zip((first, final), naive, strict=True):
            np.testing.assert_array_equal(labels.label, label)
            np.testing.assert_allclose(labels.weight, weight, atol=TOLERANCE)
            np.testing.assert_allclose(labels.fused, fused, atol=TOLERANCE)
        np.testing.assert_array_equal(prediction.label, probabilities.argmax(axis=1))
        np.testing.assert_allclose(prediction.fused, probabilities, atol=TOLERANCE)
        changed += (first.label != final.label).sum()
        moved += (first.kept != final.kept).sum()
    assert changed > 0  # the rounds changed labels
    assert (moved > 0) == (threshold > 0)  # images pass or fail the gate between rounds
    assert len(calls) == (0 if threshold else in_row_space)  # the path chosen for this size


@pytest.mark.parametrize("number", range(6))
def test_adapting_to_a_shifted_target_is_better_than_its_source_model(number):
    domains, source_only = ShiftedDomains(number, shift=1.5), VARIANTS["source_only"]
    seed = domains.build(clip=True)
    *_, (_, _, adapted) = adapted_and_predicted(seed, CALIBRATED)
    source = predicted(seed, source_only, sources_of(seed, source_only), [None] * 3)[-1]
    for label in (adapted.label, adapted.klda.argmax(axis=1)):  # with CLIP, and by the new classifier alone
        assert np.mean(label == domains.test_y) > np.mean(source.label == domains.test_y)
