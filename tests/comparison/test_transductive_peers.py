"""Test that StatA, TransCLIP and ZLaP agree with naive oracles in CLIP's and in the vision model's space."""

from dataclasses import replace

import numpy as np
import pytest

from comparison.registered_methods import TRANSDUCTIVE, both_forms
from comparison.shifted_domains import ShiftedDomains
from pipeline.comparison.methods import stata, transclip, zlap
from pipeline.comparison.registry import compared_method
from pipeline.comparison.unlabelled_tasks import clip_space, vision_space
from pipeline.errors import InputError
from reference import class_gaussians as oracle
from reference import zlap as zlap_oracle

SPACES = pytest.mark.parametrize("space", [clip_space, vision_space])


def run(name, seed):
    return compared_method(name).run(seed)


def small_seed(number=0, **options):
    return ShiftedDomains(number, n=42, tests=30, **options).build(clip=True)


@SPACES
@pytest.mark.parametrize("name", ["transclip", "stata"])
def test_gaussians_agree_with_their_oracle_and_classify_test_rows_among_all_classes_seen(name, space):
    seed = small_seed(1)
    data = space(seed)
    means, variances, shared, rows = [], [], 0.0, 0
    predictions = run(name if space is clip_space else f"{name}-pseudo", seed)
    for task, predicted in zip(data.tasks, predictions, strict=True):
        if name == "stata":
            fitted, (mu, v) = stata.fit(task), oracle.stata(task.rows, task.prior, task.anchors)
            variances += list(v)
        else:
            fitted, (mu, v) = transclip.fit(task), oracle.transclip(task.rows, task.prior)
            shared, rows = shared + len(task.rows) * v, rows + len(task.rows)
            variances = [shared / rows] * (len(means) + len(mu))
        means += list(mu)
        np.testing.assert_allclose(fitted[0], mu, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(fitted[1], v, rtol=1e-7, atol=1e-12)
        for i, row in enumerate(data.test):
            density = [oracle.log_density(row, m, v) for m, v in zip(means, variances, strict=True)]
            assert predicted[i] == np.argmax(data.test_logits[i, : len(means)] + np.array(density) / 50)


@SPACES
def test_zlap_agrees_with_one_graph_of_all_tasks(space):
    seed = small_seed(2, noise=2.0)
    data = space(seed)
    tasks = [(task.classes, task.rows, task.prior) for task in data.tasks]
    predictions = run("zlap" if space is clip_space else "zlap-pseudo", seed)
    for t, scores in enumerate(zlap.scores_of_tests(space(seed))):
        expected = zlap_oracle.scores(tasks[: t + 1], data.test, data.text)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(predictions[t], expected.argmax(axis=1))


def test_stata_leaves_a_class_without_assigned_rows_at_its_anchor():
    task = next(iter(clip_space(small_seed()).tasks))
    prior = np.tile([1 - 1e-12, 1e-12], (len(task.rows), 1))
    means, _ = stata.fit(replace(task, prior=prior))
    np.testing.assert_allclose(means[1], task.anchors[1], atol=1e-12)
    assert np.abs(means[0] - task.anchors[0]).max() > 0.01


@pytest.mark.parametrize("name", both_forms(TRANSDUCTIVE))
def test_an_empty_task_and_a_constant_zero_feature_are_accepted(name):
    domains = ShiftedDomains(3, d=12)
    for x in (domains.x, domains.source_x, domains.test_x):
        x[:, 0] = 0
    seed = domains.build(clip=True)
    first, second, third = seed.target.tasks
    tasks = [first, second.take(np.arange(0)), third]
    predictions = run(name, replace(seed, target=replace(seed.target, tasks=tasks)))
    assert np.mean(predictions[0] == domains.test_y) > 0.15
    assert len(predictions) == 3


def test_the_error_without_clip_names_the_missing_embeddings():
    with pytest.raises(InputError, match="text"):
        run("stata", ShiftedDomains(0).build())
