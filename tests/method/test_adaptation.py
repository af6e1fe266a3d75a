from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.method.adaptation import adapt_task, adapt_tasks, empty_statistics, pseudo_label
from pipeline.method.continual_metrics import accuracy_matrix, final_accuracy
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.rows import UnlabelledRows
from pipeline.method.source_model import fit_source
from pipeline.method.variants import VARIANTS, variant
from reference import released as released_oracle
from shifted_problem import SCALE, TASKS, VIEWS, M, Problem


@pytest.mark.parametrize(
    ("seed", "D", "n"), [(0, 16, 84), (1, 16, 84), (2, 80, 28)]
)  # D×D and dual form
def test_released_agrees_with_its_re_implementation_sample_by_sample(seed, D, n):
    problem, options = Problem(seed, D=D, n=n), variant("released")
    sources = problem.sources(options)
    adapted = adapt_tasks(problem.basis, problem.tasks(), sources, options, SCALE)
    source_rows = []
    for classes in TASKS:
        rows = np.isin(problem.source_y, classes)
        source_rows.append((problem.z(problem.source_x[rows]), problem.source_y[rows].tolist()))
    models = released_oracle.source_models(source_rows)
    expected, targets = released_oracle.adapt(models, list(problem.oracle_tasks()))
    tolerance = (
        1e-9 if D == 16 else 1e-6
    )  # a pinverse at 1e-6 of the scatter has fewer digits itself
    for after, (labels, fused, weights) in zip(adapted, expected, strict=True):
        np.testing.assert_array_equal(after.labels.label, labels)
        np.testing.assert_allclose(after.labels.fused, fused, atol=tolerance)
        np.testing.assert_allclose(after.labels.weight, weights, atol=tolerance)
        assert after.labels.kept.all()
    predictions = problem.predictions(options, sources, adapted)
    for prediction, target in zip(predictions, targets, strict=True):
        seen = list(range(prediction.fused.shape[1]))
        rows = problem.z(problem.test_views["original"])
        scores = released_oracle.predict(target, rows, problem.test_cosines.tolist(), seen)
        np.testing.assert_allclose(prediction.fused, scores, atol=tolerance)
        np.testing.assert_array_equal(prediction.label, np.argmax(scores, axis=1))


def test_every_variant_beats_chance_and_calibrated_beats_the_source_alone():
    scores, problem = {}, Problem(1, D=40, n=280)
    for name, options in VARIANTS.items():
        sources = problem.sources(options)
        adapted = [None] * len(TASKS)
        if options.predictor == "adapted":
            adapted = adapt_tasks(problem.basis, problem.tasks(), sources, options, SCALE)
        labels = [p.label for p in problem.predictions(options, sources, adapted)]
        tasks = np.array([0, 0, 1, 1, 2, 2, 2])[problem.test_y]
        scores[name] = final_accuracy(accuracy_matrix(labels, problem.test_y, tasks))
    assert min(scores.values()) > 1 / M
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

    plain = adapt_tasks(problem.basis, problem.tasks(), sources, options, SCALE)
    spoiled = adapt_tasks(problem.basis, spoiling(), sources, options, SCALE)
    for a, b in zip(plain, spoiled, strict=True):
        np.testing.assert_array_equal(a.classifier.W, b.classifier.W)


def test_later_source_tasks_do_not_change_earlier_models():
    problem, options = Problem(2), variant("calibrated")
    rows = problem.basis, problem.source_views, problem.source_y
    (early,) = fit_source(*rows, TASKS[:1], options)
    first, *_ = problem.sources(options)
    np.testing.assert_array_equal(early.classifier.W, first.classifier.W)
    np.testing.assert_array_equal(early.scatter.triangle, first.scatter.triangle)
    np.testing.assert_array_equal(early.embedding_means, first.embedding_means)


@pytest.mark.parametrize(("arithmetic", "tolerance"), [("float64", 1e-6), ("float32", 1e-3)])
def test_the_order_of_images_does_not_matter_to_calibrated(arithmetic, tolerance):
    problem, options = Problem(3), replace(variant("calibrated"), arithmetic=arithmetic)
    sources = problem.sources(options)
    plain = adapt_tasks(problem.basis, problem.tasks(), sources, options, SCALE)
    order = np.random.default_rng(0).permutation
    shuffled = [task.take(order(len(task))) for task in problem.tasks()]
    again = adapt_tasks(problem.basis, shuffled, sources, options, SCALE)
    for a, b in zip(plain, again, strict=True):
        atol = tolerance * np.abs(a.classifier.W).max()
        np.testing.assert_allclose(a.classifier.W, b.classifier.W, atol=atol)


def test_a_class_without_pseudo_labels_falls_back_to_the_source_mean():
    problem = Problem(4)
    options = replace(
        variant("calibrated"), rounds=0, prior_count=0.0, source_covariance=False,
        responsibilities="hard",
    )  # fmt: skip
    (source, *_), task = problem.sources(options), next(problem.tasks())
    labels = pseudo_label(problem.basis, task, source, options, SCALE)
    labels = replace(labels, label=np.zeros_like(labels.label))
    before = empty_statistics(problem.basis, options)
    after, result = adapt_task(
        problem.basis, before, task, labels, source=source, options=options, clip_scale=SCALE
    )
    assert np.isnan(after.means()[1]).all()
    assert np.isfinite(result.classifier.W).all()
    assert len(before.means()) == 0  # what came in is left as it was


def test_a_class_may_come_back_in_a_later_task():
    """The same images in one task or in two of the same classes: the same statistics."""
    problem, options = Problem(4), replace(variant("calibrated"), rounds=0, arithmetic="float64")
    (source, *_), task = problem.sources(options), next(problem.tasks())
    labels = pseudo_label(problem.basis, task, source, options, SCALE)

    def adapted(*parts):
        statistics = empty_statistics(problem.basis, options)
        for index in parts:
            some = replace(
                labels, label=labels.label[index], weight=labels.weight[index],
                fused=labels.fused[index], kept=labels.kept[index],
            )  # fmt: skip
            statistics, result = adapt_task(
                problem.basis, statistics, task.take(index), some,
                source=source, options=options, clip_scale=SCALE,
            )  # fmt: skip
        return statistics, result.classifier

    everything = np.arange(len(task))
    (once, a), (twice, b) = adapted(everything), adapted(everything[:9], everything[9:])
    # features are float32, and on some processors the last bit depends on how many rows are mapped at once
    np.testing.assert_allclose(twice.means(), once.means(), atol=1e-7)
    np.testing.assert_allclose(b.W, a.W, rtol=1e-5, atol=1e-5 * np.abs(a.W).max())


def test_the_gate_leaves_uncertain_images_out():
    problem = Problem(6)
    options = replace(variant("calibrated"), threshold=0.9, rounds=0)
    adapted = adapt_tasks(problem.basis, problem.tasks(), problem.sources(options), options, SCALE)
    kept = np.concatenate([after.labels.kept for after in adapted])
    assert 0 < kept.mean() < 1


def test_mistakes_are_named():
    problem, options = Problem(0), variant("calibrated")
    with pytest.raises(InputError, match="order of arrival"):
        next(
            fit_source(problem.basis, problem.source_views, problem.source_y, TASKS[::-1], options)
        )
    few = problem.source_y != 3
    views = {name: x[few] for name, x in problem.source_views.items()}
    with pytest.raises(InputError, match="no sample of class 3"):
        list(fit_source(problem.basis, views, problem.source_y[few], TASKS, options))
    with pytest.raises(InputError, match="needs the target's classifier"):
        problem.predictions(options, problem.sources(options), [None] * 3)


def test_views_vote_by_the_mean_of_their_probabilities():
    problem = Problem(7)
    options = replace(variant("no_clip"), vote_at_test=True, rounds=0)
    sources = problem.sources(options)
    adapted = adapt_tasks(problem.basis, problem.tasks(), sources, options, SCALE)
    together = problem.predictions(options, sources, adapted)[-1].fused
    alone = []
    for name in VIEWS:
        rows = UnlabelledRows({"original": problem.test_views[name]}, problem.test_cosines)
        alone.append(
            predict(
                kernel_rows(problem.basis, rows, 0.0), rows.cosines, source=sources[-1],
                classifier=adapted[-1].classifier, clip_scale=SCALE,
                options=replace(options, vote_at_test=False),
            ).fused
        )  # fmt: skip
    np.testing.assert_allclose(together, np.mean(alone, axis=0))
