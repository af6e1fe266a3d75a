"""Test classes that the source never had, which start from their names in CLIP."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from pipeline.cli.main import main
from pipeline.config.params import load_params
from pipeline.method.fusion import fuse
from pipeline.method.rows import reduce_locally, unit_rows
from pipeline.problem.method_options import method_options
from pipeline.problem.opened_step import OpenedStep
from pipeline.problem.step_adaptation import labels_with_new_classes, source_with_new_classes
from pipeline.stage import open_project
from reference.new_classes import first_probabilities, prior_mean
from stream_project import NAMES, change_step, prepare, run, state, step_entry


@pytest.fixture
def foxes(weeks):
    """Return the project with two weeks that may have images of a class that the source never had."""
    params = weeks.read_params()
    params["datasets"]["more"] = {"classes_per_task": 2, "class_names": {**NAMES, "fox": "red fox"}}
    for week, classes in (("week1", ["fox", "bee", "ant"]), ("week2", "all")):
        params["domains"][week]["dataset"] = "more"
        params["steps"][f"camera-{week}"]["classes"] = classes
    weeks.write_params(params)
    prepare(weeks, "week1", "week2")
    return weeks


def test_first_labels_and_prior_mean_equal_the_reference(foxes):
    params = load_params()
    options = method_options(params.method.variant, params.method.options | {"vote_views": False})
    step = OpenedStep("camera-week1", params.steps["camera-week1"], open_project(params).domain("week1"), options)
    assert step.order == ("ant", "bee", "fox")
    task = step.task(np.arange(12))
    referee = step.referee(reduce_locally)
    labels, source = labels_with_new_classes(step, referee, task), source_with_new_classes(step, referee)
    z = referee.features(task).deviations("original", np.arange(12)).astype(float)
    clip = referee.clip(task.cosines, task.classes)
    scores = z @ step.source.classifier.W + step.source.classifier.b
    p = first_probabilities(scores, clip, np.array([False, False, True]))
    np.testing.assert_allclose(labels.fused, fuse(p, clip, options.fusion(at_test=False)), atol=1e-6)
    is_new = clip.argmax(axis=1) == 2
    g = unit_rows(task.views["original"][np.arange(12)])
    for rows, means, known in (
        (z, source.means, step.source.means),
        (g, source.embedding_means, step.source.embedding_means),
    ):
        mean = prior_mean(rows, clip, 2) if is_new.any() else clip[:, 2] @ rows / clip[:, 2].sum()
        np.testing.assert_allclose(means[2], mean, atol=1e-6)
        np.testing.assert_array_equal(means[:2], known[:2])


def test_a_new_class_keeps_its_first_prior_mean_in_later_steps(foxes):
    (foxes.folder / "corrections.csv").write_text("path,class\ndata/week1/a0.png,fox\n")
    run(foxes, "step camera-week1")
    (foxes.folder / "corrections.csv").write_text("path,class\n")
    run(foxes, "step camera-week2")
    first, second = state(foxes, "camera-week1"), state(foxes, "camera-week2")
    assert first.classes == ("ant", "bee", "fox")
    assert second.classes == ("ant", "bee", "fox", "cat", "dog")
    assert np.isfinite(second.classifier.W).all()
    fox = first.classes.index("fox")
    assert first.statistics.totals.weight[fox] >= 5 * 3  # the corrected image, in three views
    np.testing.assert_array_equal(first.statistics.prior_means[fox], second.statistics.prior_means[fox])
    change_step(foxes, "camera-week1", classes=["fox"])  # a step may have only new classes
    run(foxes, "step camera-week1")
    assert state(foxes, "camera-week1").classes == ("fox",)


def test_a_new_class_does_not_change_the_rejection_sums_of_other_classes(foxes):
    """m̄ is the mean over the source's classes; sums of the new class begin when the stream meets it."""
    foxes.change_params(method={"variant": "rejecting"})
    change_step(foxes, "camera-week1", classes=["bee", "ant"])
    run(foxes, "step camera-week1", "step camera-week2")
    without = state(foxes, "camera-week2")
    change_step(foxes, "camera-week2", classes=["fox", "bee", "dog"])
    run(foxes, "step camera-week2")
    with_fox = state(foxes, "camera-week2")
    assert with_fox.rejecting_classes == ["ant", "bee", "dog", "fox", "cat"]  # seen, then the source's others
    columns = [with_fox.rejecting_classes.index(name) for name in without.rejecting_classes]
    np.testing.assert_array_equal(with_fox.rejection.moments[:, columns], without.rejection.moments)
    assert with_fox.rejection.moments[0].tolist() == [24, 24, 24, 12, 24]  # number of images per class
    assert np.isfinite(with_fox.directions).all()
    foxes.change_params(steps={"camera-week3": step_entry("streams/camera-week2", "week1", ["fox", "ant"])})
    run(foxes, "step camera-week3")
    third = state(foxes, "camera-week3")
    assert third.rejecting_classes == with_fox.rejecting_classes
    np.testing.assert_array_equal(third.directions, with_fox.directions)  # sums of the fox remain valid


def test_an_exported_classifier_that_rejects_has_no_prompt_of_a_class_not_met_yet(foxes):
    foxes.change_params(method={"variant": "rejecting"})
    change_step(foxes, "camera-week1", classes=["bee", "ant"])
    run(foxes, "step camera-week1")
    assert state(foxes, "camera-week1").prompts.classes == ["ant", "bee", "cat", "dog", "fox"]
    assert main(["export", "--stream", "camera", "--after", "week1", "--output", "week1.safetensors"]) == 0
    exported = load_file("week1.safetensors")
    assert len(exported["all_text"]) == len(exported["directions"]) == 4
