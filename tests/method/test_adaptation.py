from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method.adaptation import (
    TargetTask,
    adapt_task,
    nothing_yet,
    pseudo_label,
    run_problem,
)
from pipeline.method.class_statistics import symmetric
from pipeline.method.continual_metrics import accuracy_matrix, final_accuracy
from pipeline.method.prediction import predict
from pipeline.method.source_model import fit_source
from pipeline.method.task_features import TaskFeatures
from pipeline.method.variants import variant
from reference import calibrated as calibrated_oracle
from reference import released as released_oracle
from shifted_problem import SCALE, TASKS, VIEWS, M, Problem


@pytest.mark.parametrize("inverse", ["cholesky", "pinverse"])
@pytest.mark.parametrize("seed", range(3))
def test_released_agrees_with_its_re_implementation_sample_by_sample(seed, inverse):
    problem = Problem(seed)
    options = replace(variant("released"), batch_images=5, inverse=inverse)
    sources = problem.sources(options)
    adapted = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
    source_rows = []
    for classes in TASKS:
        rows = np.isin(problem.source_y, classes)
        source_rows.append((problem.z(problem.source_x[rows]), problem.source_y[rows].tolist()))
    models = released_oracle.source_models(source_rows, 5)
    expected, targets = released_oracle.adapt(models, list(problem.oracle_tasks()), 5)
    for after, (labels, fused, weights) in zip(adapted, expected, strict=True):
        np.testing.assert_array_equal(after.labels.label, labels)
        np.testing.assert_allclose(after.labels.fused, fused, atol=1e-9)
        np.testing.assert_allclose(after.labels.weight, weights, atol=1e-9)
        assert after.labels.kept.all()
    predictions = problem.predictions(options, sources, adapted)
    for prediction, target in zip(predictions, targets, strict=True):
        seen = list(range(prediction.fused.shape[1]))
        rows = problem.z(problem.test_views["original"])
        scores = released_oracle.predict(target, rows, problem.test_cosines.tolist(), seen)
        np.testing.assert_allclose(prediction.fused, scores, atol=1e-9)
        np.testing.assert_array_equal(prediction.label, np.argmax(scores, axis=1))


@pytest.mark.parametrize("rounds", [0, 2])
def test_calibrated_agrees_with_the_naive_protocol(rounds):
    problem = Problem(5)
    options = replace(
        variant("calibrated"), rounds=rounds, ridge=0.2, source_ridge=0.1, views=VIEWS,
        shrinkage=None, source_covariance=False, source_views=False, prior_count=0.0, temperature=1.0,
        vote_views=False, arithmetic="float64",
    )  # fmt: skip
    sources = problem.sources(options)
    adapted = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
    models = []
    for K in (2, 4, 7):
        rows = problem.source_y < K
        y = problem.source_y[rows].tolist()
        models.append(calibrated_oracle.source_model(problem.z(problem.source_x[rows]), y, K, 0.1))
    expected = calibrated_oracle.adapt(
        models, list(problem.oracle_tasks()), ridge=0.2, scale=SCALE, rounds=rounds
    )
    predictions = problem.predictions(options, sources, adapted)
    rows = problem.z(problem.test_views["original"])
    for after, prediction, (labels, weights, fused, target) in zip(
        adapted, predictions, expected, strict=True
    ):
        np.testing.assert_array_equal(after.labels.label, labels)
        np.testing.assert_allclose(after.labels.weight, weights, atol=1e-7)
        np.testing.assert_allclose(after.labels.fused, fused, atol=1e-7)
        scores = calibrated_oracle.predict(target, rows, problem.test_cosines.tolist(), SCALE)
        np.testing.assert_allclose(prediction.fused, scores, atol=1e-7)


@pytest.mark.parametrize(
    "name",
    ["calibrated", "paper", "released", "no_clip", "no_augmentation", "no_weighting",
     "clip_zero_shot", "source_only", "nearest_mean"],
)  # fmt: skip
def test_every_variant_runs_and_calibrated_beats_the_references(name):
    scores = {}
    for run in (name, "source_only"):
        options, problem = variant(run), Problem(1, D=40, n=280)
        sources = problem.sources(options)
        adapted = [None] * len(TASKS)
        if options.predictor == "adapted":
            adapted = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
        labels = [p.label for p in problem.predictions(options, sources, adapted)]
        tasks = np.array([0, 0, 1, 1, 2, 2, 2])[problem.test_y]
        scores[run] = final_accuracy(accuracy_matrix(labels, problem.test_y, tasks))
    assert scores[name] > 1 / M
    if name == "calibrated":
        assert scores["calibrated"] >= scores["source_only"]


def test_earlier_tasks_are_never_read_again():
    problem, options = Problem(2), variant("calibrated")
    sources = problem.sources(options)

    def spoiling():
        for task in problem.tasks():
            views = {name: x.copy() for name, x in task.views.items()}
            yield replace(task, views=views)
            for x in views.values():  # only once the next task is asked for
                x[:] = np.nan

    plain = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
    spoiled = run_problem(problem.basis, spoiling(), sources, options, SCALE)
    for a, b in zip(plain, spoiled, strict=True):
        np.testing.assert_array_equal(a.classifier.W, b.classifier.W)


def test_later_source_tasks_do_not_change_earlier_models():
    problem, options = Problem(2), variant("calibrated")
    early = fit_source(problem.basis, problem.source_views, problem.source_y, TASKS[:1], options)
    all_of_it = problem.sources(options)
    np.testing.assert_array_equal(early[0].classifier.W, all_of_it[0].classifier.W)
    np.testing.assert_array_equal(early[0].spreads[0].triangle, all_of_it[0].spreads[0].triangle)
    np.testing.assert_array_equal(early[0].embedding_means, all_of_it[0].embedding_means)


@pytest.mark.parametrize(("arithmetic", "tolerance"), [("float64", 1e-6), ("float32", 1e-3)])
def test_the_order_of_images_does_not_matter_to_calibrated(arithmetic, tolerance):
    problem, options = Problem(3), replace(variant("calibrated"), arithmetic=arithmetic)
    sources = problem.sources(options)
    plain = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
    shuffled = []
    for task in problem.tasks():
        order = np.random.default_rng(0).permutation(len(task.cosines))
        views = {name: x[order] for name, x in task.views.items()}
        shuffled.append(TargetTask(task.classes, views, task.cosines[order]))
    again = run_problem(problem.basis, shuffled, sources, options, SCALE)
    for a, b in zip(plain, again, strict=True):
        atol = tolerance * np.abs(a.classifier.W).max()
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=atol)


def test_a_class_without_pseudo_labels_falls_back_to_the_source_mean():
    problem = Problem(4)
    options = replace(variant("calibrated"), rounds=0, prior_count=0.0, source_covariance=False)
    sources = problem.sources(options)
    task = next(problem.tasks())
    labels = pseudo_label(problem.basis, task, sources[0].classifier, options, SCALE)
    labels = replace(labels, label=np.zeros_like(labels.label))
    running = nothing_yet(problem.basis, options)
    after, result = adapt_task(
        problem.basis, running, task, labels, source=sources[0], options=options, clip_scale=SCALE
    )
    assert np.isnan(after[0].moments().means[1]).all()
    assert np.isfinite(result.classifier.W).all()
    assert len(running[0].moments().means) == 0  # what came in is left as it was


def test_the_gate_leaves_uncertain_images_out():
    problem = Problem(6)
    options = replace(variant("calibrated"), threshold=0.9, rounds=0)
    sources = problem.sources(options)
    adapted = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
    kept = np.concatenate([after.labels.kept for after in adapted])
    assert 0 < kept.mean() < 1


def test_mistakes_are_named():
    problem, options = Problem(0), variant("calibrated")
    with pytest.raises(InputError, match="order of arrival"):
        fit_source(problem.basis, problem.source_views, problem.source_y, TASKS[::-1], options)
    few = problem.source_y != 3
    with pytest.raises(InputError, match="no sample of class 3"):
        fit_source(
            problem.basis,
            {name: x[few] for name, x in problem.source_views.items()},
            problem.source_y[few],
            TASKS,
            options,
        )
    with pytest.raises(InputError, match="needs the target's classifier"):
        predict(
            TaskFeatures(problem.basis, problem.test_views), problem.test_cosines,
            source=problem.sources(options)[0], classifier=None, options=options, clip_scale=1.0,
        )  # fmt: skip


def test_views_vote_by_the_mean_of_their_probabilities():
    problem = Problem(7)
    options = replace(variant("no_clip"), vote_at_test=True, rounds=0)
    sources = problem.sources(options)
    adapted = run_problem(problem.basis, problem.tasks(), sources, options, SCALE)
    together = problem.predictions(options, sources, adapted)[-1].fused
    alone = []
    for name in VIEWS:
        views = {"original": problem.test_views[name]}
        alone.append(
            predict(
                TaskFeatures(problem.basis, views), problem.test_cosines, source=sources[-1],
                classifier=adapted[-1].classifier, clip_scale=SCALE,
                options=replace(options, vote_at_test=False),
            ).fused
        )  # fmt: skip
    np.testing.assert_allclose(together, np.mean(alone, axis=0))
    voted = replace(options, vote_views=True)
    task = next(problem.tasks())
    a, b = (
        pseudo_label(problem.basis, task, sources[0].classifier, o, SCALE) for o in (options, voted)
    )
    assert (a.fused != b.fused).any()


def test_the_source_scatter_is_pooled_by_weight():
    problem = Problem(8)
    alone = replace(
        variant("calibrated"), rounds=0, ridge=0.0, prior_count=0.0, arithmetic="float64"
    )
    pooled = replace(alone, source_covariance=True)
    sources = problem.sources(alone)
    target = fit_source(problem.basis, problem.views, problem.y, TASKS[:1], alone)
    task = next(problem.tasks())
    rows = np.isin(problem.y, TASKS[0])
    labels = pseudo_label(problem.basis, task, sources[0].classifier, alone, SCALE)
    labels = replace(labels, label=problem.y[rows], weight=np.ones(int(rows.sum())))
    running = nothing_yet(problem.basis, pooled)
    _, result = adapt_task(
        problem.basis, running, task, labels, source=sources[0], options=pooled, clip_scale=SCALE
    )
    (t,), (s,) = target[0].spreads, sources[0].spreads
    scatter = np.zeros((16, 16))
    t.add_to(scatter)
    s.add_to(scatter)
    covariance = symmetric(scatter) / (t.total + s.total)
    expected = np.linalg.solve(covariance, target[0].means.T)
    np.testing.assert_allclose(result.classifier.W, expected, rtol=1e-4)
