from dataclasses import replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, adapted_to, predicted, sources_of
from pipeline.errors import InputError
from pipeline.method.adaptation import Referee, adapt_tasks
from pipeline.method.random_fourier_features import deviations
from pipeline.method.source_model import fit_source
from pipeline.method.variants import CALIBRATED, RELEASED
from reference import released as released_oracle


@pytest.mark.parametrize(("number", "D", "n"), [(0, 16, 84), (1, 16, 84), (2, 80, 28)])  # D×D and dual form
def test_released_agrees_with_an_independent_implementation(number, D, n):
    domains = ShiftedDomains(number, n=n, tests=35)
    seed = domains.build(D=D)
    sources = sources_of(seed, RELEASED)
    adapted = adapted_to(seed, RELEASED, sources)

    def z(x):
        return list(deviations(seed.basis, x).astype(np.float64) + seed.basis.pivot)

    models = released_oracle.source_models([(z(x), y.tolist()) for _, x, y, _ in domains.source_rows()])
    tasks = [
        (task.classes.tolist(), [z(x) for x in task.views.values()], task.cosines.tolist())
        for task in seed.target.tasks
    ]
    expected, targets = released_oracle.adapt(models, tasks)
    tolerance = 1e-9 if D == 16 else 1e-6  # the oracle's pinverse has fewer digits here
    for task, (labels, fused, weights) in zip(adapted, expected, strict=True):
        np.testing.assert_array_equal(task.labels.label, labels)
        np.testing.assert_allclose(task.labels.fused, fused, atol=tolerance)
        np.testing.assert_allclose(task.labels.weight, weights, atol=tolerance)
        assert task.labels.kept.all()
    rows, test_cosines = z(seed.target.test.views["original"]), seed.target.test.cosines.tolist()
    predictions = predicted(seed, RELEASED, sources, [task.classifier for task in adapted])
    for prediction, target in zip(predictions, targets, strict=True):
        scores = released_oracle.predict(target, rows, test_cosines, list(range(prediction.fused.shape[1])))
        np.testing.assert_allclose(prediction.fused, scores, atol=tolerance)
        np.testing.assert_array_equal(prediction.label, np.argmax(scores, axis=1))


def test_earlier_tasks_are_never_read_again():
    seed = ShiftedDomains(2).build()
    sources = sources_of(seed, CALIBRATED)

    def tasks_overwritten_after_use():
        for task in seed.target.tasks:
            views = {name: x.copy() for name, x in task.views.items()}
            yield replace(task, views=views)
            for x in views.values():  # runs when the next task is requested
                x[:] = np.nan

    referee = Referee(seed.basis, CALIBRATED, seed.target.clip_scale)
    adapted = adapt_tasks(referee, tasks_overwritten_after_use(), sources)
    for a, b in zip(adapted_to(seed, CALIBRATED, sources), adapted, strict=True):
        np.testing.assert_array_equal(a.classifier.W, b.classifier.W)


@pytest.mark.parametrize(("arithmetic", "tolerance"), [("float64", 1e-6), ("float32", 1e-3)])
def test_calibrated_does_not_depend_on_the_order_of_images(arithmetic, tolerance):
    seed, options = ShiftedDomains(3).build(), replace(CALIBRATED, arithmetic=arithmetic)
    sources, order = sources_of(seed, options), np.random.default_rng(0).permutation
    shuffled = [task.take(order(len(task))) for task in seed.target.tasks]
    adapted = adapted_to(replace(seed, target=replace(seed.target, tasks=shuffled)), options, sources)
    for a, b in zip(adapted_to(seed, options, sources), adapted, strict=True):
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=tolerance * np.abs(a.classifier.W).max())


def test_a_source_class_without_samples_and_a_missing_classifier_are_refused():
    seed = ShiftedDomains(0).build()
    kept = seed.source.labels != 3
    views = {name: x[kept] for name, x in seed.source.views.items()}
    with pytest.raises(InputError, match="no sample of class 3"):
        list(fit_source(seed.basis, views, seed.source.labels[kept], seed.tasks, CALIBRATED))
    with pytest.raises(InputError, match="needs the target's classifier"):
        predicted(seed, CALIBRATED, sources_of(seed, CALIBRATED), [None] * 3)
