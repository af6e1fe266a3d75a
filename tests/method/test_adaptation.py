from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method.adaptation import Referee, adapt_task, adapt_tasks, pseudo_label
from pipeline.method.continual_metrics import accuracy_matrix, final_accuracy
from pipeline.method.source_model import fit_source
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.variants import CALIBRATED, RELEASED, VARIANTS
from reference import released as released_oracle
from shifted_problem import SCALE, TASKS, M, Problem


@pytest.mark.parametrize(("seed", "D", "n"), [(0, 16, 84), (1, 16, 84), (2, 80, 28)])  # D×D and dual form
def test_released_agrees_with_its_re_implementation_sample_by_sample(seed, D, n):
    problem = Problem(seed, D=D, n=n)
    sources = problem.sources(RELEASED)
    adapted = problem.adapted(RELEASED, sources)
    source_rows = []
    for classes in TASKS:
        rows = np.isin(problem.source_y, classes)
        source_rows.append((problem.z(problem.source_x[rows]), problem.source_y[rows].tolist()))
    models = released_oracle.source_models(source_rows)
    expected, targets = released_oracle.adapt(models, list(problem.oracle_tasks()))
    tolerance = 1e-9 if D == 16 else 1e-6  # a pinverse at 1e-6 of the scatter has fewer digits itself
    for after, (labels, fused, weights) in zip(adapted, expected, strict=True):
        np.testing.assert_array_equal(after.labels.label, labels)
        np.testing.assert_allclose(after.labels.fused, fused, atol=tolerance)
        np.testing.assert_allclose(after.labels.weight, weights, atol=tolerance)
        assert after.labels.kept.all()
    rows = problem.z(problem.test_views["original"])
    for prediction, target in zip(problem.predictions(RELEASED, sources, adapted), targets, strict=True):
        seen = list(range(prediction.fused.shape[1]))
        scores = released_oracle.predict(target, rows, problem.test_cosines.tolist(), seen)
        np.testing.assert_allclose(prediction.fused, scores, atol=tolerance)
        np.testing.assert_array_equal(prediction.label, np.argmax(scores, axis=1))


def test_every_variant_beats_chance_and_calibrated_beats_the_source_alone():
    scores, problem = {}, Problem(1, D=40, n=280)
    for name, options in VARIANTS.items():
        sources = problem.sources(options)
        adapted = problem.adapted(options, sources) if options.predictor == "adapted" else [None] * len(TASKS)
        labels = [p.label for p in problem.predictions(options, sources, adapted)]
        tasks = np.array([0, 0, 1, 1, 2, 2, 2])[problem.test_y]
        scores[name] = final_accuracy(accuracy_matrix(labels, problem.test_y, tasks))
    assert min(scores.values()) > 1 / M
    assert scores["calibrated"] >= scores["source_only"]


def test_earlier_tasks_are_never_read_again():
    problem = Problem(2)
    sources = problem.sources(CALIBRATED)

    def spoiling():
        for task in problem.tasks():
            views = {name: x.copy() for name, x in task.views.items()}
            yield replace(task, views=views)
            for x in views.values():  # only once the next task is asked for
                x[:] = np.nan

    spoiled = adapt_tasks(Referee(problem.basis, CALIBRATED, SCALE), spoiling(), sources)
    for a, b in zip(problem.adapted(CALIBRATED, sources), spoiled, strict=True):
        np.testing.assert_array_equal(a.classifier.W, b.classifier.W)


@pytest.mark.parametrize(("arithmetic", "tolerance"), [("float64", 1e-6), ("float32", 1e-3)])
def test_the_order_of_images_does_not_matter_to_calibrated(arithmetic, tolerance):
    problem, options = Problem(3), replace(CALIBRATED, arithmetic=arithmetic)
    sources, order = problem.sources(options), np.random.default_rng(0).permutation
    shuffled = [task.take(order(len(task))) for task in problem.tasks()]
    again = adapt_tasks(Referee(problem.basis, options, SCALE), shuffled, sources)
    for a, b in zip(problem.adapted(options, sources), again, strict=True):
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=tolerance * np.abs(a.classifier.W).max())


def test_a_class_without_pseudo_labels_falls_back_to_the_source_mean():
    problem = Problem(4)
    options = replace(CALIBRATED, rounds=0, prior_count=0.0, source_covariance=False, responsibilities="hard")
    (source, *_), task = problem.sources(options), next(problem.tasks())
    referee = Referee(problem.basis, options, SCALE)
    labels = pseudo_label(referee, task, source)
    before = empty_statistics(problem.basis, options)
    after, result = adapt_task(referee, task, source, before, replace(labels, label=np.zeros_like(labels.label)))
    assert np.isnan(after.means()[1]).all()
    assert np.isfinite(result.classifier.W).all()
    assert len(before.means()) == 0  # what came in is left as it was


def test_mistakes_are_named():
    problem = Problem(0)
    with pytest.raises(InputError, match="order of arrival"):
        next(fit_source(problem.basis, problem.source_views, problem.source_y, TASKS[::-1], CALIBRATED))
    few = problem.source_y != 3
    views = {name: x[few] for name, x in problem.source_views.items()}
    with pytest.raises(InputError, match="no sample of class 3"):
        list(fit_source(problem.basis, views, problem.source_y[few], TASKS, CALIBRATED))
    with pytest.raises(InputError, match="needs the target's classifier"):
        problem.predictions(CALIBRATED, problem.sources(CALIBRATED), [None] * 3)
