"""Rejection, present classes and metrics of label spaces, against naive oracles."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from comparison.shifted_domains import ShiftedDomains, sources_of
from pipeline.method.adaptation import Referee, pseudo_label
from pipeline.method.continual_metrics import Answers, label_space_scores, scores_after_tasks
from pipeline.method.prepared_tasks import ITERATIONS, LEAST_SHARE, prepared_tasks, present_classes
from pipeline.method.rejection import (
    EDGES,
    RejectionState,
    class_directions,
    empty_state,
    otsu_threshold,
    reject,
    rejector,
)
from pipeline.method.rows import TargetTask, UnlabelledRows
from pipeline.method.variants import VARIANTS
from reference import rejection as oracle

SOURCE_MEANS = np.eye(3, 8)


@pytest.fixture
def images():
    """Sixty images of three known classes and an unknown one, and the directions of the known ones."""
    rng = np.random.default_rng(0)
    centres = np.eye(4, 8) * 3
    label = np.repeat([0, 1, 2, 3], [14, 13, 13, 20])
    x = centres[label] + 0.5 * rng.normal(size=(60, 8)) + 1.0  # with a domain shift
    cosines = 0.2 + 0.05 * np.eye(4)[label][:, :3] + 0.02 * rng.normal(size=(60, 3))
    return UnlabelledRows({"original": x}, cosines), class_directions(SOURCE_MEANS)


def test_scores_and_threshold_equal_the_oracles(images):
    rows, directions = images
    state, unknown = reject(empty_state(8), rows, directions)
    u, v = oracle.scores_of_task(rows.views["original"].tolist(), rows.cosines.tolist(), SOURCE_MEANS.tolist())
    np.testing.assert_allclose(rejector(state, directions).unknownness(rows), u, rtol=1e-9)
    assert state.histogram.tolist() == oracle.histogram([*u, *v], EDGES.tolist())
    threshold = oracle.threshold([*u, *v], EDGES.tolist())
    assert otsu_threshold(state.histogram) == pytest.approx(threshold)
    assert unknown.tolist() == [x > threshold for x in u]
    np.testing.assert_array_equal(rejector(state, directions).confidence(rows) > 0.5, unknown)
    assert otsu_threshold(np.zeros(480)) == np.inf  # without data, nothing is rejected
    np.testing.assert_array_equal(class_directions(SOURCE_MEANS[:1]), SOURCE_MEANS[:1])  # there is no other class


def test_prepared_tasks_exclude_rejected_images(images):
    rows, directions = images
    task = TargetTask(rows.views, rows.cosines, classes=np.arange(3))
    _, unknown = reject(empty_state(8), task, directions)
    (prepared,) = prepared_tasks(Referee(None, VARIANTS["rejecting"], 1.0), [task], [None], directions=directions)
    np.testing.assert_array_equal(prepared.accepted, np.flatnonzero(~unknown))
    np.testing.assert_array_equal(prepared.images.views["original"], rows.views["original"][~unknown])


def test_rejection_states_are_additive(images):
    rows, directions = images
    first, second = rows.take(np.arange(30)), rows.take(np.arange(30, 60))
    half, _ = reject(empty_state(8), first, directions)
    whole, _ = reject(half, second, directions)
    assert whole.embedding[-1] == whole.histogram.sum() / 2 == 60  # the histogram counts u and v
    wider = half + RejectionState(half.embedding, np.ones((5, 4)), half.histogram)
    assert wider.moments[0].tolist() == [31, 31, 31, 1]
    reversed_order, _ = reject(reject(empty_state(8), second, directions)[0], first, directions)
    np.testing.assert_allclose(reversed_order.embedding, whole.embedding)
    # n, Σk and Σk² do not depend on the order
    np.testing.assert_allclose(reversed_order.moments[[0, 3, 4]], whole.moments[[0, 3, 4]])


def test_present_classes_equal_those_of_the_naive_em():
    rng = np.random.default_rng(2)
    for true in ([1, 4], [0, 1, 2, 3, 4, 5], [3]):
        logits = 2 * np.eye(6)[rng.choice(true, 60)] + 0.7 * rng.normal(size=(60, 6))
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        assert present_classes(p).tolist() == oracle.present(p.tolist(), LEAST_SHARE, ITERATIONS) == true
    assert present_classes(p[:0]).tolist() == [0, 1, 2, 3, 4, 5]


def test_present_classes_are_estimated_without_alignment_which_a_weak_clip_misleads():
    domains, options = ShiftedDomains(0, shift=1.0), VARIANTS["calibrated"]
    domains.clip += 2.5 * np.random.default_rng(0).normal(size=domains.clip.shape)
    seed = domains.build()
    referee, source = Referee(seed.basis, options, seed.target.clip_scale), sources_of(seed, options)[-1]
    tasks = [replace(task, classes=np.arange(7)) for task in seed.target.tasks]  # any class may be in any task
    prepared = prepared_tasks(referee, tasks, [source] * len(tasks), estimate_classes=True)
    assert [task.images.classes.tolist() for task in prepared] == [task.tolist() for task in domains.tasks]
    aligned = present_classes(pseudo_label(referee, tasks[0], source).fused)
    assert aligned.tolist() != domains.tasks[0].tolist()


def test_metrics_after_each_task_equal_the_oracles():
    rng = np.random.default_rng(3)
    labels, tasks = rng.integers(-1, 3, 60), rng.integers(0, 2, 60)
    answers = [Answers(rng.integers(0, 3, 60), rng.random(60) > 0.5, rng.integers(0, 9, 60) / 10) for _ in range(2)]
    for k, (found, answer) in enumerate(zip(scores_after_tasks(labels, tasks, answers), answers, strict=True)):
        index = np.flatnonzero(tasks <= k)
        columns = (labels, answer.label, answer.rejected, answer.u)  # u has ties
        expected = oracle.measures(*(column[index].tolist() for column in columns))
        assert astuple(found) == pytest.approx(expected)


def test_without_unknown_images_there_is_no_h_score():
    answers = Answers(np.array([0]), np.array([False]), np.array([0.0]))
    scores = label_space_scores(np.array([0]), answers)
    assert scores.shared == 1
    assert np.isnan([scores.unknown, scores.h_score, scores.auroc]).all()
